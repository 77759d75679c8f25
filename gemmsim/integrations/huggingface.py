"""A Hugging Face config.json -> the dims of a Transformer, as the model classes of transformers read it.

Only model types whose layers are known here are read: the usual keys in a file of another type (multi-head latent
attention, state spaces, ...) would give wrong GEMMs without a word. A dim that is not in the file is an error, but for
the ones that transformers itself fills in for that type and that published files leave out, which a note names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gemmsim.errors import GemmsimError, unknown
from gemmsim.problem import MAX_DIMENSION
from gemmsim.workload import Experts, Transformer

_WHOLE, _WINDOWED = "full_attention", "sliding_attention"
#: layers are looked at one by one; no model has nearly as many
_LAYERS = 100_000
#: what transformers 5.24 fills in for gemma3_text where a file of a model with vision leaves it out
_GEMMA3 = {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}


@dataclass(frozen=True)
class _Config:
    """The keys of a file; place: file and outer key for a message. defaults: of keys that may be missing, noted."""

    place: str
    keys: Mapping[str, Any]
    name: str
    defaults: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def size(self, key: str, default: int | None = None, high: int = MAX_DIMENSION) -> int:
        """A dim; where the key is missing or null, the default. Raises GemmsimError if there is none."""
        value = self.keys.get(key)
        value = self.defaults.get(key, default) if value is None else value
        if value is None:
            raise GemmsimError(f"{self.place}: no key {key}: expected a whole number from 1 to {high}")
        if type(value) is not int or not 1 <= value <= high:
            raise self.wrong(key, f"a whole number from 1 to {high}")
        return value

    def optional(self, key: str) -> int | None:
        """A size, or None where the key is missing or null."""
        return None if self.keys.get(key) is None else self.size(key)

    def flag(self, key: str, default: bool) -> bool:
        """true or false; the default where the key is missing."""
        value = self.keys.get(key, default)
        if type(value) is not bool:
            raise self.wrong(key, "true or false")
        return value

    def listed(self, key: str, kind: type) -> Sequence[Any] | None:
        """A list of such values, or None where the key is missing or null."""
        value = self.keys.get(key)
        if value is not None and not (isinstance(value, list) and all(type(x) is kind for x in value)):
            raise self.wrong(key, f"a list of {'texts' if kind is str else 'whole numbers'}")
        return value

    def wrong(self, key: str, expected: str) -> GemmsimError:
        """The error for a key's value."""
        shown = repr(self.keys[key])
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return GemmsimError(f"{self.place}: {key} is {shown}: expected {expected}")


def read_model(path: str) -> Transformer:
    """The model that a config.json describes.

    Raises GemmsimError for a file that is no JSON object, an unknown model_type, and a key that is missing or wrong.
    """
    tree = _json(path)
    kind = tree.get("model_type")
    if not isinstance(kind, str):
        found = f"model_type is {kind!r}" if "model_type" in tree else "no key model_type"
        raise GemmsimError(f"{path}: {found}: expected one of {', '.join(READERS)}")
    if kind not in READERS:
        raise GemmsimError(f"{path}: {unknown('model_type', kind[:60], READERS)}")
    name = Path(path).stem if Path(path).stem != "config" else Path(path).absolute().parent.name
    return READERS[kind](_Config(path, tree, name, notes=tuple(_quantized(tree))))


def _json(path: str) -> dict[str, Any]:
    import json

    try:
        tree = json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise GemmsimError(f"{path}: expected UTF-8 text, found other bytes at position {error.start}") from None
    except json.JSONDecodeError as error:
        raise GemmsimError(f"{path}, line {error.lineno}: expected JSON, found none: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        why = "brackets in too many brackets" if isinstance(error, RecursionError) else str(error).partition(": ")[0]
        raise GemmsimError(f"{path}: cannot be read as a model's config: {why}") from None
    if not isinstance(tree, dict):
        found = "a list" if isinstance(tree, list) else "a text" if isinstance(tree, str) else json.dumps(tree)[:40]
        raise GemmsimError(f"{path}: expected a JSON object, found {found}")
    return tree


def _quantized(tree: Mapping[str, Any]) -> list[str]:
    method = tree.get("quantization_config")
    if not isinstance(method, dict):
        return []
    return [f"the file says that weights are quantized ({method.get('quant_method')}): their type here is --weights"]


def _decoder(
    c: _Config, *, kv_heads: int | None = None, head_dim: int | None = None, tied: bool = False, **traits: Any
) -> Transformer:
    """The keys that most model types share; kv_heads and head_dim are the file's unless given. tied: the default."""
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    return Transformer(
        c.name, hidden, c.size("num_hidden_layers", high=_LAYERS), heads,
        _key_heads(c, heads) if kv_heads is None else kv_heads,
        _head_dim(c, hidden, heads) if head_dim is None else head_dim,
        c.size("intermediate_size"), c.size("vocab_size"), tied=c.flag("tie_word_embeddings", tied), notes=c.notes,
        **traits,
    )  # fmt: skip


def _key_heads(c: _Config, heads: int, default: int | None = None) -> int:
    kv = c.size("num_key_value_heads", default)
    if heads % kv:
        raise GemmsimError(
            f"{c.place}: num_key_value_heads is {kv}: expected a divisor of num_attention_heads = {heads}"
        )
    return kv


def _head_dim(c: _Config, hidden: int, heads: int, key: str = "num_attention_heads") -> int:
    if c.keys.get("head_dim") is None and hidden % heads:
        raise c.wrong(key, f"a divisor of the hidden size {hidden}, or a key head_dim")
    return c.size("head_dim", max(hidden // heads, 1))


def _llama(c: _Config) -> Transformer:
    bias, heads = c.flag("attention_bias", False), c.size("num_attention_heads")
    kv = _key_heads(c, heads, heads)  # the first Llamas' files have no such key
    return _decoder(c, kv_heads=kv, qkv_bias=bias, o_bias=bias, mlp_bias=c.flag("mlp_bias", False))


def _mistral(c: _Config) -> Transformer:
    return _windowed(c, _decoder(c), c.optional("sliding_window"), lambda layer: True)


def _mixtral(c: _Config) -> Transformer:
    model = _mistral(c)
    chosen, count = c.size("num_experts_per_tok"), c.size("num_local_experts")
    return replace(model, experts=_chosen(c, Experts(model.layers, count, chosen, model.width)))


def _qwen2(c: _Config) -> Transformer:
    return _qwen_window(c, _decoder(c, qkv_bias=c.flag("qkv_bias", True)))


def _qwen3(c: _Config) -> Transformer:
    bias = c.flag("attention_bias", False)
    return _qwen_window(c, _decoder(c, head_dim=c.size("head_dim"), qkv_bias=bias, o_bias=bias, head_norms=True))


def _qwen_window(c: _Config, model: Transformer) -> Transformer:
    if not c.flag("use_sliding_window", False) or c.optional("sliding_window") is None:
        return model
    first = c.size("max_window_layers")
    return _windowed(c, model, c.optional("sliding_window"), lambda layer: layer >= first)


def _qwen2_moe(c: _Config) -> Transformer:
    return _qwen_experts(c, _qwen2(c), c.size("shared_expert_intermediate_size"))


def _qwen3_moe(c: _Config) -> Transformer:
    return _qwen_experts(c, _qwen3(c), 0)


def _qwen_experts(c: _Config, model: Transformer, shared: int) -> Transformer:
    plain = c.listed("mlp_only_layers", int) or ()
    step = c.size("decoder_sparse_step", 1)
    layers = sum(layer not in plain and (layer + 1) % step == 0 for layer in range(model.layers))
    chosen, width = c.size("num_experts_per_tok"), c.size("moe_intermediate_size")
    return replace(model, experts=_chosen(c, Experts(layers, c.size("num_experts"), chosen, width, shared)))


def _chosen(c: _Config, experts: Experts) -> Experts:
    if experts.chosen > experts.count:
        raise c.wrong("num_experts_per_tok", f"at most the {experts.count} experts")
    return experts


def _gemma(c: _Config, **traits: Any) -> Transformer:
    bias = c.flag("attention_bias", False)
    return _decoder(c, head_dim=c.size("head_dim"), tied=True, qkv_bias=bias, o_bias=bias, **traits)


def _gemma2(c: _Config) -> Transformer:
    return _windowed(c, _gemma(c, norms=4), c.size("sliding_window"), lambda layer: layer % 2 == 0)


def _gemma3_text(c: _Config) -> Transformer:
    step = c.size("sliding_window_pattern", 6)
    model = _gemma(c, norms=4, head_norms=True)
    return _windowed(c, model, c.size("sliding_window"), lambda layer: (layer + 1) % step != 0)


def _gemma3(c: _Config) -> Transformer:
    """A model with vision: its text part."""
    text = c.keys.get("text_config")
    if not isinstance(text, dict):
        raise GemmsimError(f"{c.place}: text_config is {type(text).__name__}: expected an object with the text's dims")
    left_out = [f"{key} = {value}" for key, value in _GEMMA3.items() if text.get(key) is None]
    filled = [f"not in the file, as transformers fills them in: {', '.join(left_out)}"] if left_out else []
    notes = (*c.notes, "the text part alone: what reads images is left out", *filled)
    return _gemma3_text(_Config(f"{c.place}: text_config", text, c.name, _GEMMA3, notes))


def _windowed(c: _Config, model: Transformer, window: int | None, usual: Callable[[int], bool]) -> Transformer:
    """The model with a window in the layers that layer_types says, else in those that are usual for its type."""
    if window is None:
        return model
    kinds = c.listed("layer_types", str)
    if kinds is None:
        return replace(model, window=window, windowed_layers=sum(usual(layer) for layer in range(model.layers)))
    if len(kinds) != model.layers or not set(kinds) <= {_WHOLE, _WINDOWED}:
        raise c.wrong("layer_types", f"{_WHOLE} or {_WINDOWED} for each of {model.layers} layers")
    return replace(model, window=window, windowed_layers=kinds.count(_WINDOWED))


def _gpt2(c: _Config) -> Transformer:
    hidden, heads = c.size("n_embd"), c.size("n_head")
    return Transformer(
        c.name, hidden, c.size("n_layer", high=_LAYERS), heads, heads, _head_dim(c, hidden, heads, "n_head"),
        c.size("n_inner", 4 * hidden), c.size("vocab_size"), gated=False, weight_rows="K",
        tied=c.flag("tie_word_embeddings", True), positions=c.size("n_positions"), norm_bias=True, qkv_bias=True,
        o_bias=True, mlp_bias=True, notes=c.notes,
    )  # fmt: skip


def _gpt_neox(c: _Config) -> Transformer:
    bias, heads = c.flag("attention_bias", True), c.size("num_attention_heads")
    return _decoder(c, kv_heads=heads, gated=False, norm_bias=True, qkv_bias=bias, o_bias=bias, mlp_bias=True)


#: model_type -> its reader
READERS: Mapping[str, Callable[[_Config], Transformer]] = {
    "llama": _llama, "mistral": _mistral, "mixtral": _mixtral, "qwen2": _qwen2, "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3, "qwen3_moe": _qwen3_moe, "gemma": _gemma, "gemma2": _gemma2, "gemma3": _gemma3,
    "gemma3_text": _gemma3_text, "gpt2": _gpt2, "gpt_neox": _gpt_neox,
}  # fmt: skip
