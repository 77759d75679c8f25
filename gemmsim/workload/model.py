"""A decoder-only transformer by its dims: what decides its GEMMs and its parameter count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of the MLP of `layers` layers.

    A token goes through `chosen` of `count` experts of width `width`, and through one of width `shared` if that is
    not 0, whose result a gate of one column scales.
    """

    layers: int
    count: int
    chosen: int
    width: int
    shared: int = 0


@dataclass(frozen=True)
class Transformer:
    """Dims of a model. width: of the MLP; gated: it has a gate beside its up projection.

    weight_rows: N where a weight lies as N x K (nn.Linear), K where as K x N (GPT-2's Conv1D). tied: the lm head's
    weight is the embedding's. positions: learnt position embeddings. norms: a layer's norms of `hidden` entries, with a
    bias each if norm_bias; head_norms: one of head_dim for q and one for k. window: the most keys a token looks at in
    windowed_layers of the layers. notes: what the reader should know of how the dims were found.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    vocab: int
    gated: bool = True
    weight_rows: str = "N"
    tied: bool = False
    positions: int = 0
    norms: int = 2
    norm_bias: bool = False
    head_norms: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    window: int | None = None
    windowed_layers: int = 0
    experts: Experts | None = None
    notes: tuple[str, ...] = ()

    @property
    def dense_layers(self) -> int:
        """Layers with a plain MLP."""
        return self.layers - (self.experts.layers if self.experts else 0)

    @property
    def parameters(self) -> int:
        """All that is learnt, embeddings, norms and biases too; a tied lm head is not counted again."""
        embedded = self.hidden * (self.vocab * (1 if self.tied else 2) + self.positions)
        layers = self.layers * (self._attention + self._norms) + self.dense_layers * self._mlp(self.width)
        return embedded + layers + self._mixture + self.hidden * (1 + self.norm_bias)

    @property
    def _attention(self) -> int:
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        weights = self.hidden * (2 * q + 2 * kv)
        return weights + self.qkv_bias * (q + 2 * kv) + self.o_bias * self.hidden

    @property
    def _norms(self) -> int:
        return self.norms * self.hidden * (1 + self.norm_bias) + self.head_norms * 2 * self.head_dim

    @property
    def _mixture(self) -> int:
        e = self.experts
        if e is None:
            return 0
        shared = self._mlp(e.shared) + self.hidden if e.shared else 0
        return e.layers * (self.hidden * e.count + e.count * self._mlp(e.width) + shared)

    def _mlp(self, width: int) -> int:
        up = width * (1 + self.gated)
        return self.hidden * (up + width) + self.mlp_bias * (up + self.hidden)
