"""`gemmsim workload`: the GEMMs of a model's pass, read from its config.json, or of a convolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gemmsim.cli.options import (
    Command,
    configuration_options,
    family_and_dtype,
    number_option,
    parameters_given,
    refuse_beside,
    said_dtype,
    whole_number,
)
from gemmsim.cli.tables import Column, emit, human, output_options, said_format, send
from gemmsim.errors import GemmsimError
from gemmsim.problem import DTYPE_BYTES, MAX_DIMENSION

if TYPE_CHECKING:
    from gemmsim.workload import Pass, Product, Transformer

_F = TypeVar("_F", bound=Callable[..., Any])
_COLUMNS = (
    Column("phase"), Column("name"), Column("m", "M"), Column("n", "N"), Column("k", "K"), Column("batch"),
    Column("count"), Column("layout"), Column("dtype"), Column("dtype_b", "B"),
    Column("pass_flops", "in a pass", "FLOP"), Column("pass_weight_bytes", "weights", "B"), Column("note"),
)  # fmt: skip
_CONV = ("N", "C", "H", "W", "K", "R", "S")
_LOGITS = ("all", "last")


@dataclass(frozen=True)
class Asked:
    """The options as given; None: left out."""

    tokens: str | None = None
    sequences: str | None = None
    tp: str | None = None
    phase: str | None = None
    context: str | None = None
    logits: str | None = None
    stride: str | None = None
    pad: str | None = None
    dilation: str | None = None
    groups: str | None = None

    @property
    def of_model(self) -> dict[str, str | None]:
        """Options of a model's pass."""
        names = ("tokens", "sequences", "tp", "phase", "context", "logits")
        return {f"--{name}": getattr(self, name) for name in names}

    @property
    def of_conv(self) -> dict[str, str | None]:
        """Options of a convolution."""
        return {f"--{name}": getattr(self, name) for name in ("stride", "pad", "dilation", "groups")}

    def number(self, name: str, default: int) -> int:
        """The whole number from 1 of an option. Raises GemmsimError for another."""
        found = number_option(f"--{name}", getattr(self, name), 1, MAX_DIMENSION)
        return default if found is None else found


@dataclass(frozen=True)
class _Found:
    """What is listed: the GEMMs, notes below them, and what JSON says beside them."""

    products: Sequence[Product]
    notes: Sequence[str]
    document: Mapping[str, Any]


def pass_options(command: _F) -> _F:
    """Options of a model's pass: tokens, sequences, phase, context, tp, logits, and the weights' type."""
    for option in reversed(
        (
            click.option("--tokens", metavar="N", help="Tokens of each sequence in prefill."),
            click.option("--sequences", metavar="N", help="Sequences together.  [default: 1]"),
            click.option("--phase", type=click.Choice(("prefill", "decode", "both")),
                         help="decode: one new token a sequence.  [default: prefill]"),
            click.option("--context", metavar="N", help="In decode, keys in the cache, the new token's among them.  "
                         "[default: --tokens]"),
            click.option("--tp", metavar="N", help="The GEMMs of one of N GPUs, by tensor parallelism.  [default: 1]"),
            click.option("--logits", type=click.Choice(_LOGITS), help="In prefill, the lm head of every token or of "
                         "each sequence's last.  [default: all]"),
            click.option("--weights", metavar="T", help="Of the layers' weights, if narrower (quantized); the lm head "
                         "and the router keep --dtype.  [default: --dtype]"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(cls=Command)
@click.argument("config", required=False, metavar="CONFIG_JSON")
@pass_options
@click.option("--conv", metavar=",".join(_CONV), help="A convolution in place of a model: images, channels, height, "
              "width, filters, their height and width.")  # fmt: skip
@click.option("--stride", metavar="N[,N]", help="Of the convolution; one number, or down and across.  [default: 1]")
@click.option("--pad", metavar="N[,N]", help="Zeros on each side.  [default: 0]")
@click.option("--dilation", metavar="N[,N]", help="Pixels from one tap to the next.  [default: 1]")
@click.option("--groups", metavar="N", help="Groups of channels; each is a problem of the batch.  [default: 1]")
@click.option("--dtype", metavar="T", default="bf16", show_default=True, help="Of activations and the KV cache.")
@configuration_options
@click.option("--family", metavar="F", help="Of --tile and -p.  [default: the dtype's first]")
@output_options(default=None)
def command(
    config: str | None, conv: str | None, dtype: str, weights: str | None, tile: str | None, parameters: Sequence[str],
    family: str | None, format: str | None, out: str | None, **given: str | None,
) -> None:  # fmt: skip
    """The GEMMs of a transformer's forward pass on one GPU, from the config.json of Hugging Face, or of a convolution.

    csv is what predict --batch, measure --batch, tune --shapes and export --shapes read; --tile and -p add the columns
    of a configuration, which --batch needs. pass_flops and pass_weight_bytes are of all `count` launches. --out x.csv
    or x.json says the format, too.
    """
    asked = Asked(**given)
    a = str(said_dtype(dtype, "--dtype"))
    types = (a, said_weights(weights, a))
    columns = _configuration(family, a, tile, parameters)
    if (config is None) == (conv is None):
        found = "neither" if config is None else "both"
        raise GemmsimError(f"{found} of CONFIG_JSON and --conv is given: expected exactly one of them")
    if conv is not None:
        refuse_beside(asked.of_model, "--conv", "expected it with a CONFIG_JSON")
        _show(_convolution(conv, asked, types), columns, format, out)
        return
    refuse_beside(asked.of_conv, "CONFIG_JSON", "expected it with --conv")
    _show(_model(str(config), asked, types), columns, format, out)


def said_weights(text: str | None, dtype: str) -> str:
    """The weights' type. Raises GemmsimError for an unknown one, and for one wider than the activations'."""
    name = said_dtype(text, "--weights") or dtype
    if DTYPE_BYTES[name] > DTYPE_BYTES[dtype]:
        raise GemmsimError(f"--weights is {text!r}: expected --dtype {dtype}, or a narrower type that is widened to it")
    return name


def _configuration(family: str | None, dtype: str, tile: str | None, parameters: Sequence[str]) -> dict[str, Any]:
    """Columns of the configuration that --tile and -p say; none if they say none."""
    if tile is None and not parameters:
        refuse_beside({"--family": family}, "neither --tile nor -p", "expected it with one of them")
        return {}
    name, _ = family_and_dtype(family, dtype)
    return {"family": name, **parameters_given(name, tile, parameters)}


def model_passes(
    path: str, asked: Asked, types: tuple[str, str]
) -> tuple[Transformer, list[tuple[Pass, Sequence[Product]]]]:
    """The model of a config.json, and the GEMMs of the passes asked for. types: of activations, and of weights.

    Raises GemmsimError for wrong options, a wrong file, and dims that tp does not split.
    """
    from gemmsim.integrations.huggingface import read_model
    from gemmsim.workload import products

    runs = _passes(asked, types)
    model = read_model(path)
    try:
        return model, [(run, products(model, run)) for run in runs]
    except GemmsimError as error:
        raise GemmsimError(f"{path}: {error}") from None


def _model(path: str, asked: Asked, types: tuple[str, str]) -> _Found:
    model, found = model_passes(path, asked, types)
    sums = [_sums(run, listed) for run, listed in found]
    notes = [f"{model.name}: {model.parameters:,} parameters", *map(_said, sums), *model.notes, *_spread(model)]
    document = {"model": model.name, "parameters": model.parameters, "notes": list(model.notes), "passes": sums}
    return _Found([product for _, listed in found for product in listed], notes, document)


def _passes(asked: Asked, types: tuple[str, str]) -> list[Pass]:
    """Prefill, decode, or both. Raises GemmsimError for a wrong number, and where tokens or context are not said."""
    from gemmsim.workload import PHASES, Pass

    phases = PHASES if asked.phase == "both" else (asked.phase or "prefill",)
    if asked.tokens is None and (asked.context is None or "prefill" in phases):
        needed = "--tokens" if "prefill" in phases else "--context, or --tokens,"
        raise GemmsimError(f"{needed} is missing: expected a whole number from 1 to {MAX_DIMENSION}")
    if "decode" not in phases:
        refuse_beside({"--context": asked.context}, "--phase prefill", "expected it with decode")
    tokens = asked.number("tokens", 1)
    made = {"prefill": (tokens, tokens), "decode": (1, asked.number("context", tokens))}
    sequences, tp = asked.number("sequences", 1), asked.number("tp", 1)
    last = asked.logits == "last"
    return [Pass(phase, *made[phase], sequences, tp, *types, last_only=last) for phase in phases]


def _sums(run: Pass, listed: Sequence[Product]) -> dict[str, Any]:
    """What a pass comes to on one GPU."""
    attention = [p for p in listed if not p.weight]
    return {
        "phase": run.phase, "tokens": run.tokens, "sequences": run.sequences, "context": run.context, "tp": run.tp,
        "flops": sum(p.flops for p in listed), "attention_flops": sum(p.flops for p in attention),
        "causal_attention_flops": sum(p.flops * p.causal_share for p in attention),
        "weight_bytes": sum(p.weight_bytes for p in listed),
    }  # fmt: skip


def _said(sums: Mapping[str, Any]) -> str:
    """The sums of a pass as a line."""
    whole, attention, causal = sums["flops"], sums["attention_flops"], sums["causal_attention_flops"]
    text = f"{sums['phase']}: {human(whole, 'FLOP')}{' a GPU' if sums['tp'] > 1 else ''}, "
    text += f"{human(attention, 'FLOP')} of it in attention, counted whole"
    if causal < attention:
        text += f": the causal mask leaves {human(causal, 'FLOP')}, {human(whole - attention + causal, 'FLOP')} in all"
    return f"{text}; {human(sums['weight_bytes'], 'B')} of weights"


def _spread(model: Transformer) -> list[str]:
    e = model.experts
    if e is None:
        return []
    return [f"experts: {e.chosen} of {e.count} a token, tokens spread evenly; where that does not come out even, some "
            "experts have one token more, and the others are the group experts_rest"]  # fmt: skip


def _convolution(text: str, asked: Asked, types: tuple[str, str]) -> _Found:
    from gemmsim.workload import Conv

    values = [whole_number(part) for part in text.split(",")]
    if len(values) != len(_CONV) or any(v is None or not 1 <= v <= MAX_DIMENSION for v in values):
        raise GemmsimError(f"--conv is {text!r}: expected seven whole numbers from 1, {','.join(_CONV)}")
    sizes = [v or 1 for v in values]
    conv = Conv(
        *sizes, stride=_pair("--stride", asked.stride, 1), pad=_pair("--pad", asked.pad, 0),
        dilation=_pair("--dilation", asked.dilation, 1), groups=asked.number("groups", 1),
    )  # fmt: skip
    try:
        product = conv.product(*types)
    except GemmsimError as error:
        raise GemmsimError(f"--conv {text}: {error}") from None
    return _Found([product], [], {"conv": asdict(conv)})


def _pair(option: str, text: str | None, low: int) -> tuple[int, int]:
    """One number for both directions, or down,across; left out: the least. Raises GemmsimError for another."""
    values = [whole_number(part) for part in (str(low) if text is None else text).split(",")]
    if len(values) > 2 or any(v is None or not low <= v <= MAX_DIMENSION for v in values):
        raise GemmsimError(
            f"{option} is {text!r}: expected a whole number from {low} to {MAX_DIMENSION}, or two of them, N,N"
        )
    return values[0] or 0, values[-1] or 0


def _show(found: _Found, columns: Mapping[str, Any], format: str | None, out: str | None) -> None:
    kind = said_format(format, out)
    rows = [{**_row(product), **columns} for product in found.products]
    if kind == "json":
        import json

        send(json.dumps({**found.document, "gemms": rows}, indent=2) + "\n", out)
        return
    shown = [*_COLUMNS[:-1], *(Column(name) for name in columns), _COLUMNS[-1]]
    if kind == "table" and not any(row["note"] for row in rows):
        shown.pop()
    emit(rows, shown, kind, out, notes=found.notes)


def _row(p: Product) -> dict[str, Any]:
    """A GEMM as a line, under the names of a batch's columns."""
    problem = p.gemm
    return {
        "phase": p.phase, "name": p.name, "m": p.m, "n": p.n, "k": p.k, "batch": p.form.batch, "count": p.count,
        "layout": problem.layout, "dtype": problem.dtype, "dtype_b": problem.dtype_b, "pass_flops": p.flops,
        "pass_weight_bytes": p.weight_bytes, "note": p.note,
    }  # fmt: skip
