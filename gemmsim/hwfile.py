"""Strict reading of hardware files: YAML in, a Document out with what is wrong: key, found, expected.

Types are pydantic's strict ones, through pydantic_core: the full package would cost every command 0.1 s at start-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator, ValidationError, core_schema

from gemmsim.errors import GemmsimError
from gemmsim.hwfields import ARCH_FORM, GPU_FORM, GROUPS, KINDS, LISTS, Document, Figure, Form, Quantity, absent_key
from gemmsim.yamlfile import read_yaml

_SHOWN = 5  # mistakes named in one message
_GROUPED = frozenset(key for group in GROUPS for key in group)
_WRONG_UNITS: Mapping[str, Mapping[str, float]] = {
    "Hz": {"MHz": 1e6, "GHz": 1e9, "kHz": 1e3},
    "B/s": {"GB/s": 1e9, "TB/s": 1e12, "MB/s": 1e6},
    "B": {"MiB": 2**20, "GiB": 2**30, "KiB": 2**10},
    "FLOP/s": {"TFLOP/s": 1e12, "GFLOP/s": 1e9},
    "s": {"us": 1e-6, "ms": 1e-3, "ns": 1e-9},
    "W": {"mW": 1e-3, "kW": 1e3},
}


class HardwareFileError(GemmsimError):
    """A wrong hardware file: `mistakes` holds all of them, `why` the first few, the message path and why."""

    def __init__(self, path: Path, mistakes: Sequence[str]) -> None:
        more = f"; and {len(mistakes) - _SHOWN} more mistakes" if len(mistakes) > _SHOWN else ""
        self.why = "; ".join(mistakes[:_SHOWN]) + more
        super().__init__(f"{path}: {self.why}")
        self.mistakes = tuple(mistakes)


def read_gpu(path: Path) -> Document:
    """A product's file, every figure checked by itself. Raises GemmsimError for what is no YAML mapping."""
    return _read(path, GPU_FORM)


def read_arch(path: Path) -> Document:
    """An architecture's file, every figure checked by itself. Raises GemmsimError as `read_gpu` does."""
    return _read(path, ARCH_FORM)


def refuse(path: Path, mistakes: Iterable[str]) -> None:
    """Raise HardwareFileError if there are any mistakes."""
    if found := list(mistakes):
        raise HardwareFileError(path, found)


def _read(path: Path, form: Form) -> Document:
    tree = read_yaml(path)
    errors: list[ErrorDetails] = []
    try:
        _validator(form is ARCH_FORM).validate_python(tree)
    except ValidationError as error:
        errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] == "missing")
    bad = {str(part) for e in errors for part in (e["loc"][0], _dotted(e["loc"], form))}
    figures = {figure.key: figure for figure in _figures(tree, form, bad)}
    plain = {key: tree[key] if key in tree and key not in bad else kind() for key, kind in form.plain.items()}
    mistakes = [*(_sentence(e, form) for e in errors), *_absences(tree, plain, form)]
    return Document(str(path), plain, figures, tuple(mistakes))


def _dotted(loc: Sequence[int | str], form: Form) -> str:
    """The figure that an error is in."""
    by_dtype = isinstance(form.numbers.get(str(loc[0])), Mapping)
    return ".".join(str(part) for part in loc[: 1 + by_dtype])


@lru_cache
def _validator(arch: bool) -> SchemaValidator:
    form = ARCH_FORM if arch else GPU_FORM
    fields = {key: _field(_plain_schema(kind)) for key, kind in form.plain.items()}
    fields |= {
        key: _field(_figure_schema(_text_schema(key, allowed)), required=key not in _GROUPED)
        for key, allowed in form.texts.items()
    }
    fields |= {key: _entry(key, entry) for key, entry in form.numbers.items()}
    return SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="forbid", strict=True))


def _entry(key: str, entry: Quantity | Mapping[str, Quantity]) -> core_schema.TypedDictField:
    """One number, or one a dtype."""
    if isinstance(entry, Quantity):
        return _field(_figure_schema(_number_schema(key, entry)), required=not entry.optional)
    by_dtype = {dtype: _entry(key, quantity) for dtype, quantity in entry.items()}
    needed = any(not quantity.optional for quantity in entry.values()) or key == "datasheet_flops"
    return _field(core_schema.typed_dict_schema(by_dtype, extra_behavior="forbid", strict=True), required=needed)


def _field(schema: CoreSchema, required: bool = True) -> core_schema.TypedDictField:
    return core_schema.typed_dict_field(schema, required=required)


def _plain_schema(kind: type) -> CoreSchema:
    text = core_schema.str_schema(strict=True, min_length=1)
    return text if kind is str else core_schema.list_schema(text, strict=True)


def _text_schema(key: str, allowed: tuple[str, ...]) -> CoreSchema:
    one = core_schema.literal_schema(list(allowed)) if allowed else core_schema.str_schema(strict=True, min_length=2)
    return core_schema.list_schema(one, strict=True) if key in LISTS else one  # P100: no matrix instruction


def _number_schema(key: str, quantity: Quantity) -> CoreSchema:
    one: CoreSchema
    if quantity.whole:
        one = core_schema.int_schema(ge=int(quantity.low), le=int(quantity.high), strict=True)
    else:
        one = core_schema.float_schema(ge=quantity.low, le=quantity.high, allow_inf_nan=False, strict=True)
    return core_schema.list_schema(one, strict=True, min_length=1) if key in LISTS else one


def _figure_schema(value: CoreSchema) -> CoreSchema:
    source = core_schema.str_schema(strict=True, min_length=4, strip_whitespace=True)
    fields = {
        "value": _field(value),
        "kind": _field(core_schema.literal_schema(list(KINDS))),
        "source": _field(source),
        "conflict": _field(source, required=False),
    }
    return core_schema.typed_dict_schema(fields, extra_behavior="forbid", strict=True)


def _figures(tree: Mapping[str, Any], form: Form, bad: Set[str]) -> Iterator[Figure]:
    """The figures that are there and not `bad` (keys of those that are wrong, and of mappings with a wrong one)."""
    for key in form.texts:
        if key in tree and key not in bad:
            yield _figure(key, "", tree[key])
    for key, entry in form.numbers.items():
        if isinstance(entry, Quantity):
            if key in tree and key not in bad:
                yield _figure(key, entry.unit, tree[key])
        elif isinstance(tree.get(key), dict):
            there = (d for d in entry if d in tree[key] and f"{key}.{d}" not in bad)
            yield from (_figure(f"{key}.{d}", entry[d].unit, tree[key][d]) for d in there)


def _figure(key: str, unit: str, raw: Mapping[str, Any]) -> Figure:
    value = tuple(raw["value"]) if isinstance(raw["value"], list) else raw["value"]
    return Figure(key, value, unit, raw["kind"], raw["source"].strip(), raw.get("conflict", ""))


def _absences(tree: Mapping[str, Any], plain: Mapping[str, Any], form: Form) -> Iterator[str]:
    """Optional figures are given, or named as absent: exactly one of the two. Of a group all are given, or none."""
    there = {k for k in tree if isinstance(form.numbers.get(k), Quantity) or k in form.texts}
    there |= {f"{k}.{d}" for k in tree if isinstance(form.numbers.get(k), Mapping) for d in _keys(tree[k])}
    said = {absent_key(listed, name): (listed, name) for listed in form.absent for name in plain[listed]}
    for key, (listed, name) in said.items():
        if key in there:
            yield f"{key} is given and named under {listed} too: keep one"
        elif key not in form.optional:
            yield f"{listed} names {name!r}: expected one of {', '.join(_absent_names(listed, form))}"
    for key in sorted(form.optional - there - set(said)):
        if not key.startswith(form.unsaid):
            listed = "no_path_for" if key.startswith("fma_per_clk_per_sm.") else "unknown"
            yield f"missing key {key}: give the figure with its source, or name it under {listed}"
    for group in GROUPS:
        given = [key for key in group if key in there]
        for key in group if given else ():
            if key not in there:
                yield f"missing key {key}: expected it beside {given[0]}"


def _keys(value: object) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def _absent_names(listed: str, form: Form) -> list[str]:
    """What may stand in an absent list."""
    rate = "fma_per_clk_per_sm."
    if listed == "no_path_for":
        return ["tf32", "bf16", "fp16", "fp8", "int8"]
    return sorted(key for key in form.optional if form is GPU_FORM or not key.startswith(rate))


def _sentence(error: ErrorDetails, form: Form) -> str:
    """What one pydantic error means in a hardware file."""
    loc = [str(part) for part in error["loc"]]
    key, found, kind = ".".join(loc), error["input"], error["type"]
    if kind == "missing":
        return f"missing key {key}" + _missing_hint(loc)
    if kind in ("extra_forbidden", "invalid_key"):
        return f"unknown key {key}" + _near(loc, form)
    if kind == "dict_type":
        return f"{key} is {_show(found)}: expected a mapping" + _mapping_hint(key, form)
    quantity = _quantity(loc, form)
    expected = number_expected(found, quantity) if quantity and "value" in loc else _text_expected(error)
    return f"{key} is {_show(found)}: {expected}"


def _missing_hint(loc: list[str]) -> str:
    if loc[-1] == "source":
        return ": expected where the figure can be read, as text"
    return f": expected one of {', '.join(KINDS)}" if loc[-1] == "kind" else ""


def _mapping_hint(key: str, form: Form) -> str:
    dtype_map = isinstance(form.numbers.get(key), Mapping)
    return " of dtypes to figures" if dtype_map else " {value: ..., kind: ..., source: ...}: a figure needs its source"


def _near(loc: list[str], form: Form) -> str:
    """The key that was meant, or those that there are."""
    entry = form.numbers.get(loc[0])
    if len(loc) == 1:
        names = [*form.plain, *form.texts, *form.numbers]
    else:
        names = list(entry) if len(loc) == 2 and isinstance(entry, Mapping) else ["value", "kind", "source", "conflict"]
    near = get_close_matches(loc[-1], names, n=1)
    return f": did you mean {near[0]}?" if near else f": expected one of {', '.join(names)}" if len(names) < 9 else ""


def _quantity(loc: list[str], form: Form) -> Quantity | None:
    entry = form.numbers.get(loc[0])
    return entry.get(loc[1]) if isinstance(entry, Mapping) else entry


def number_expected(found: object, quantity: Quantity) -> str:
    """What was expected in place of a number that is none, or outside its range."""
    if isinstance(found, str):
        return f"expected a number, not text{_retype(found)}"
    what = "a whole number" if quantity.whole else "a number"
    bounds = f"{yaml_number(quantity.low)} to {yaml_number(quantity.high)} {quantity.unit}".rstrip()
    return f"expected {what} from {bounds}{_wrong_unit(found, quantity)}"


def yaml_number(number: float) -> str:
    """A number as one writes it in YAML, which takes an exponent for one only after a dot, and with its sign."""
    if abs(number) < 1e9 and number == round(number) and (number % 1e6 or not number):
        return str(round(number))
    mantissa, *exponent = f"{number:.6g}".split("e")
    return "e".join([mantissa if "." in mantissa else f"{mantissa}.0", *exponent])


def _retype(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return ""
    if not abs(number) < float("inf"):
        return ""
    why = "YAML takes an exponent without dot or sign as text" if "e" in text.lower() else "without quotes"
    return f" ({why}: write {yaml_number(number)})"


def _wrong_unit(found: object, quantity: Quantity) -> str:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return ""
    for prefixed, factor in _WRONG_UNITS.get(quantity.unit, {}).items():
        if quantity.low <= found * factor <= quantity.high:
            return f" (is it in {prefixed}? then write {yaml_number(found * factor)})"
    return ""


def _text_expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == "literal_error":
        return f"expected {context['expected']}"
    if error["type"] == "string_too_short":
        return "expected some text"
    return "expected " + {"string_type": "text", "list_type": "a list"}.get(error["type"], error["msg"].lower())


def _show(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else text[:57] + "..."
