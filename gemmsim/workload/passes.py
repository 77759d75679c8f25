"""The GEMMs of one pass of a transformer on one GPU: prefill or decode, split over tp GPUs by tensor parallelism.

Fused as inference engines run them: q, k and v in one product, gate and up in another. Column-parallel (qkv, gate_up,
lm_head: N / tp), then row-parallel (o, down: K / tp), as in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmsim.errors import GemmsimError
from gemmsim.problem import Form, Gemm, gemm
from gemmsim.workload.model import Experts, Transformer

PHASES = ("prefill", "decode")


@dataclass(frozen=True)
class Pass:
    """What is run: `tokens` new ones of each of `sequences`, each looking at `context` keys, its own among them.

    dtype: of activations and the KV cache; weights: of the layers' weights in memory. The lm head and the router stay
    in dtype, as quantized checkpoints have them. last_only: logits of each sequence's last token alone.
    """

    phase: str
    tokens: int
    context: int
    sequences: int = 1
    tp: int = 1
    dtype: str = "bf16"
    weights: str = "bf16"
    last_only: bool = False

    @property
    def rows(self) -> int:
        """M of the layers' products: new tokens of all sequences."""
        return self.tokens * self.sequences


@dataclass(frozen=True)
class Linear:
    """Activations x weights, `count` times in a pass, `batch` equal problems each. kept: its weight's type is dtype."""

    name: str
    m: int
    n: int
    k: int
    count: int
    batch: int = 1
    kept: bool = False
    note: str = ""


@dataclass(frozen=True)
class Product:
    """One GEMM, `count` times in a pass. weight: B is a weight, and neither keys nor values.

    causal_share: of its multiplications, those that the causal mask leaves; all are counted and run here.
    """

    phase: str
    name: str
    m: int
    n: int
    k: int
    count: int
    form: Form
    weight: bool = True
    causal_share: float = 1.0
    note: str = ""

    @property
    def gemm(self) -> Gemm:
        """The problem of one launch. Raises GemmsimError, naming it, for what is no size or type."""
        try:
            return gemm(self.m, self.n, self.k, self.form)
        except GemmsimError as error:
            raise GemmsimError(f"GEMM {self.name}: {error}") from None

    @property
    def flops(self) -> int:
        """2 m n k of every problem of the batch and of all `count` launches, masked entries too."""
        return 2 * self.m * self.n * self.k * self.form.batch * self.count

    @property
    def weight_bytes(self) -> int:
        """Weights of all `count` launches in memory; 0 where B is none."""
        return self.gemm.b_bytes * self.n * self.k * self.form.batch * self.count * self.weight


def products(model: Transformer, run: Pass) -> tuple[Product, ...]:
    """The GEMMs of a pass, in the order of a layer, then the lm head.

    Raises GemmsimError where tp splits no heads or no MLP, and for what is no size or type.
    """
    qkv, *rest = linears(model, run.rows, run.tp, run.sequences if run.last_only else None)
    found = (_weighed(model, run, qkv), *_attention(model, run), *(_weighed(model, run, x) for x in rest))
    for product in found:
        product.gemm  # noqa: B018 - refuses what is none
    return found


def linears(model: Transformer, rows: int, tp: int = 1, logits: int | None = None) -> tuple[Linear, ...]:
    """The products with weights for `rows` tokens, on one of tp GPUs, qkv first. logits: rows of the lm head, or all.

    Raises GemmsimError where tp splits no heads or no MLP.
    """
    heads, kv = _local_heads(model, tp)
    copied = f"key and value heads are on {tp // model.kv_heads} GPUs each" if tp > model.kv_heads else ""
    h, head = model.hidden, model.head_dim
    vocab = -(-model.vocab // tp)  # the last GPU has what is left
    return (
        Linear("qkv", rows, (heads + 2 * kv) * head, h, model.layers, note=copied),
        Linear("o", rows, h, heads * head, model.layers),
        *_mlp(model, "", rows, _part(model.width, tp, "MLP columns"), model.dense_layers),
        *(_mixture(model, model.experts, rows, tp) if model.experts else ()),
        Linear("lm_head", rows if logits is None else logits, vocab, h, 1, kept=True),
    )


def _local_heads(model: Transformer, tp: int) -> tuple[int, int]:
    """Query and key/value heads on a GPU; one key/value head is on several GPUs where there are fewer than GPUs."""
    heads = _part(model.heads, tp, "attention heads")
    if model.kv_heads % tp and tp % model.kv_heads:
        raise GemmsimError(
            f"tp = {tp}: expected a divisor or a multiple of the model's {model.kv_heads} key/value heads"
        )
    return heads, max(model.kv_heads // tp, 1)


def _part(whole: int, tp: int, what: str) -> int:
    if whole % tp:
        raise GemmsimError(f"tp = {tp}: expected a divisor of the model's {whole} {what}")
    return whole // tp


def _mlp(model: Transformer, prefix: str, rows: int, width: int, count: int, batch: int = 1) -> Iterator[Linear]:
    if not count:
        return
    up = ("gate_up", 2 * width) if model.gated else ("up", width)
    yield Linear(f"{prefix}{up[0]}", rows, up[1], model.hidden, count, batch)
    yield Linear(f"{prefix}down", rows, model.hidden, width, count, batch)


def _mixture(model: Transformer, e: Experts, rows: int, tp: int) -> Iterator[Linear]:
    """Router, experts as grouped GEMMs, the expert of all tokens.

    Tokens are spread evenly, as a balanced router has it: of rows * chosen places every expert gets the same number,
    some of them one more; those are a group of their own.
    """
    yield Linear("router", rows, e.count, model.hidden, e.layers, kept=True)
    each, more = divmod(rows * e.chosen, e.count)
    width = _part(e.width, tp, "MLP columns of an expert")
    if more:
        yield from _mlp(model, "experts_", each + 1, width, e.layers, more)
    if each:
        rest = "experts_rest_" if more else "experts_"
        yield from _mlp(model, rest, each, width, e.layers, e.count - more)
    if e.shared:
        yield from _mlp(model, "shared_", rows, _part(e.shared, tp, "MLP columns of the shared expert"), e.layers)
        yield Linear("shared_gate", rows, 1, model.hidden, e.layers, kept=True)


def _weighed(model: Transformer, run: Pass, x: Linear) -> Product:
    turned = model.weight_rows == "N" or x.name == "lm_head"  # the lm head is an embedding everywhere: vocab x hidden
    form = Form(run.dtype, run.dtype if x.kept else run.weights, layout="NT" if turned else "NN", batch=x.batch)
    return Product(run.phase, x.name, x.m, x.n, x.k, x.count, form, note=x.note)


def _attention(model: Transformer, run: Pass) -> Iterator[Product]:
    """Q K^T and P V as batched GEMMs, whole: what the causal mask leaves out is counted.

    Heads that share a key/value head are rows of one problem, so that its keys are read once. A window limits the keys
    of a token, and so N of Q K^T, to its length.
    """
    heads, kv = _local_heads(model, run.tp)
    whole = model.layers - model.windowed_layers
    if whole:
        yield from _scores(model, run, "", run.context, heads // kv, kv, whole)
    if model.windowed_layers:
        keys = min(run.context, model.window or run.context)
        yield from _scores(model, run, "_window", keys, heads // kv, kv, model.windowed_layers)


def _scores(
    model: Transformer, run: Pass, suffix: str, keys: int, group: int, kv: int, count: int
) -> Iterator[Product]:
    m, head, batch = run.tokens * group, model.head_dim, run.sequences * kv
    note = f"{group} query heads a key/value head are rows of one problem" if group > 1 else ""
    share = _causal_share(run.tokens, keys) if run.phase == "prefill" else 1.0
    for name, n, k, layout in (("qk", keys, head, "NT"), ("pv", head, keys, "NN")):
        form = Form(run.dtype, layout=layout, batch=batch)
        yield Product(run.phase, f"{name}{suffix}", m, n, k, count, form, False, share, note)


def _causal_share(tokens: int, keys: int) -> float:
    """Of tokens x keys entries those of token i and its last min(i, keys) keys."""
    return (keys * (keys + 1) / 2 + (tokens - keys) * keys) / (tokens * keys)
