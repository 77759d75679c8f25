"""Strict reading of hardware files: YAML in, a checked Document out, or one sentence: file, key, found, expected.

Types are pydantic's strict ones, through pydantic_core: the full package would cost every command 0.1 s at start-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator, ValidationError, core_schema

from gemmsim.errors import GemmsimError
from gemmsim.hwfields import (
    ARCH,
    ARCH_PLAIN,
    ARCH_TEXT,
    GPU,
    GPU_PLAIN,
    GPU_TEXT,
    KINDS,
    LISTS,
    Document,
    Figure,
    Quantity,
)

_Table = Mapping[str, Quantity | Mapping[str, Quantity]]
_SHOWN = 5  # mistakes named in one message
_WRONG_UNITS: Mapping[str, Mapping[str, float]] = {
    "Hz": {"MHz": 1e6, "GHz": 1e9, "kHz": 1e3},
    "B/s": {"GB/s": 1e9, "TB/s": 1e12, "MB/s": 1e6},
    "B": {"MiB": 2**20, "GiB": 2**30, "KiB": 2**10},
    "FLOP/s": {"TFLOP/s": 1e12, "GFLOP/s": 1e9},
    "s": {"us": 1e-6, "ms": 1e-3, "ns": 1e-9},
    "W": {"mW": 1e-3, "kW": 1e3},
}


def read_gpu(path: Path) -> Document:
    """A product's file, every figure checked by itself. Raises GemmsimError naming file, key, found and expected."""
    return _read(path, GPU, GPU_TEXT, GPU_PLAIN, "unknown")


def read_arch(path: Path) -> Document:
    """An architecture's file, every figure checked by itself. Raises GemmsimError as `read_gpu` does."""
    return _read(path, ARCH, ARCH_TEXT, ARCH_PLAIN, "no_path_for")


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds. Raises GemmsimError where it holds none, is no UTF-8 or repeats a key."""
    try:
        tree = yaml.load(path.read_bytes().decode("utf-8-sig"), _Loader)
    except FileNotFoundError:
        raise GemmsimError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise GemmsimError(f"{path}: expected UTF-8 text, found other bytes at position {error.start}") from None
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise GemmsimError(_yaml_sentence(path, error)) from None
    except (ValueError, RecursionError) as error:
        raise GemmsimError(f"{path}: no valid YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(tree, dict):
        found = "an empty file" if tree is None else f"a {type(tree).__name__}"
        raise GemmsimError(f"{path}: expected a mapping of keys, found {found}")
    return tree


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, which would keep the last of two equal keys, made to refuse the second."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen if isinstance(key.value, str) else False:
                raise yaml.MarkedYAMLError(problem=f"key {key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _yaml_sentence(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{path}:{mark.line + 1}: {problem}" if mark else f"{path}: {problem}"


def _read(path: Path, table: _Table, texts: Mapping[str, tuple[str, ...]], plain: Mapping[str, type],
          absent_key: str) -> Document:  # fmt: skip
    tree = read_yaml(path)
    try:
        _validator(absent_key).validate_python(tree)
    except ValidationError as error:
        _refuse(path, [_sentence(e, table) for e in error.errors(include_url=False)])
    figures = {f.key: f for f in _figures(tree, table, texts)}
    _refuse(path, list(_absences(tree, figures, table, absent_key)))
    return Document(str(path), {k: tree[k] for k in plain}, figures)


def _refuse(path: Path, mistakes: list[str]) -> None:
    if mistakes:
        more = f"; and {len(mistakes) - _SHOWN} more mistakes" if len(mistakes) > _SHOWN else ""
        raise GemmsimError(f"{path}: " + "; ".join(mistakes[:_SHOWN]) + more)


@lru_cache
def _validator(absent_key: str) -> SchemaValidator:
    table, texts, plain = (ARCH, ARCH_TEXT, ARCH_PLAIN) if absent_key == "no_path_for" else (GPU, GPU_TEXT, GPU_PLAIN)
    fields = {key: _field(_plain_schema(kind)) for key, kind in plain.items()}
    fields |= {key: _field(_figure_schema(_text_schema(key, allowed))) for key, allowed in texts.items()}
    fields |= {key: _entry(key, entry) for key, entry in table.items()}
    return SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="forbid", strict=True))


def _entry(key: str, entry: Quantity | Mapping[str, Quantity]) -> core_schema.TypedDictField:
    """One number, or one a dtype."""
    if isinstance(entry, Quantity):
        return _field(_figure_schema(_number_schema(key, entry)), required=not entry.optional)
    by_dtype = {dtype: _entry(key, quantity) for dtype, quantity in entry.items()}
    return _field(core_schema.typed_dict_schema(by_dtype, extra_behavior="forbid", strict=True))


def _field(schema: CoreSchema, required: bool = True) -> core_schema.TypedDictField:
    return core_schema.typed_dict_field(schema, required=required)


def _plain_schema(kind: type) -> CoreSchema:
    text = core_schema.str_schema(strict=True, min_length=1)
    return text if kind is str else core_schema.list_schema(text, strict=True)


def _text_schema(key: str, allowed: tuple[str, ...]) -> CoreSchema:
    one = core_schema.literal_schema(list(allowed)) if allowed else core_schema.str_schema(strict=True, min_length=2)
    return core_schema.list_schema(one, strict=True, min_length=1) if key in LISTS else one


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


def _figures(tree: Mapping[str, Any], table: _Table, texts: Mapping[str, tuple[str, ...]]) -> Iterator[Figure]:
    for key, quantity in [*table.items(), *((k, Quantity("", 0, 0)) for k in texts)]:
        if isinstance(quantity, Quantity):
            if key in tree:
                yield _figure(key, quantity.unit, tree[key])
        else:
            yield from (_figure(f"{key}.{d}", q.unit, tree[key][d]) for d, q in quantity.items() if d in tree[key])


def _figure(key: str, unit: str, raw: Mapping[str, Any]) -> Figure:
    value = tuple(raw["value"]) if isinstance(raw["value"], list) else raw["value"]
    return Figure(key, value, unit, raw["kind"], raw["source"].strip(), raw.get("conflict", ""))


def _absences(tree: Mapping[str, Any], figures: Mapping[str, Figure], table: _Table, absent_key: str) -> Iterator[str]:
    """Optional figures are given, or named as absent: exactly one of the two."""
    optional = {k for k, q in table.items() if isinstance(q, Quantity) and q.optional}
    if absent_key == "no_path_for":
        rates = table["fma_per_clk_per_sm"]
        assert not isinstance(rates, Quantity)
        optional = {f"fma_per_clk_per_sm.{d}" for d, q in rates.items() if q.optional}
    said = [f"fma_per_clk_per_sm.{d}" if absent_key == "no_path_for" else d for d in tree[absent_key]]
    for key in said:
        if key in figures:
            yield f"{key} is given and named under {absent_key} too: keep one"
        elif key not in optional and not key.startswith("datasheet_flops."):
            names = sorted(name.split(".")[-1] for name in optional)
            yield f"{absent_key} names {key.split('.')[-1]!r}: expected one of {', '.join(names)}"
    for key in sorted(optional - set(figures) - set(said)):
        yield f"missing key {key}: give the figure with its source, or name it under {absent_key}"


def _sentence(error: ErrorDetails, table: _Table) -> str:
    """What one pydantic error means in a hardware file."""
    loc = [str(part) for part in error["loc"]]
    key, found, kind = ".".join(p for p in loc if p != "value"), error["input"], error["type"]
    full = ".".join(loc)
    if kind == "missing":
        return f"missing key {full}" + _missing_hint(loc)
    if kind in ("extra_forbidden", "invalid_key"):
        return f"unknown key {full}{_near(loc, table)}"
    if kind in ("dict_type", "model_type"):
        return f"{key} is {_show(found)}: expected a mapping" + _mapping_hint(key, table)
    quantity = _quantity(loc, table)
    if quantity is not None and "value" in loc:
        return f"{key} is {_show(found)}: {_number_expected(found, quantity)}"
    return f"{full} is {_show(found)}: {_text_expected(error)}"


def _missing_hint(loc: list[str]) -> str:
    if loc[-1] == "source":
        return ": expected where the figure can be read, as text"
    return f": expected one of {', '.join(KINDS)}" if loc[-1] == "kind" else ""


def _mapping_hint(key: str, table: _Table) -> str:
    dtype_map = isinstance(table.get(key), Mapping)
    return " of dtypes to figures" if dtype_map else " {value: ..., kind: ..., source: ...}: a figure needs its source"


def _near(loc: list[str], table: _Table) -> str:
    here = table.get(loc[0]) if len(loc) == 2 else None
    names = list(here) if isinstance(here, Mapping) else list(table) if len(loc) == 1 else ["value", "kind", "source"]
    near = get_close_matches(loc[-1], names, n=1)
    return f": did you mean {near[0]}?" if near else f": expected one of {', '.join(names)}" if len(names) < 9 else ""


def _quantity(loc: list[str], table: _Table) -> Quantity | None:
    entry = table.get(loc[0])
    return entry.get(loc[1]) if isinstance(entry, Mapping) else entry


def _number_expected(found: object, quantity: Quantity) -> str:
    if isinstance(found, str):
        return f"expected a number, not text{_retype(found)}"
    what = "a whole number" if quantity.whole else "a number"
    unit = f" {quantity.unit}" if quantity.unit else ""
    return f"expected {what} from {quantity.low:.6g} to {quantity.high:.6g}{unit}{_wrong_unit(found, quantity)}"


def _retype(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return ""
    mantissa, _, exponent = f"{number:e}".partition("e")
    plain = f"{float(mantissa):g}" + (".0" if float(mantissa).is_integer() else "")
    return f" (YAML takes {text} in quotes, or without dot and sign, as text: write {plain}e{exponent})"


def _wrong_unit(found: object, quantity: Quantity) -> str:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return ""
    for prefixed, factor in _WRONG_UNITS.get(quantity.unit, {}).items():
        if quantity.low <= found * factor <= quantity.high:
            return f" (is it in {prefixed}? then write {found * factor:.6g})"
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
