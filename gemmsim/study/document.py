"""What a study's YAML may hold, checked strictly by pydantic; a mistake says file, key, what was found and expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from gemmsim.errors import GemmsimError
from gemmsim.problem import MAX_DIMENSION

Size = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Texts = Annotated[list[Text], Field(min_length=1)]
L2 = Literal["cold_clean", "cold_dirty", "warm"]
_SHOWN = 5  # mistakes named in one message
_TYPES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "some text",
    "string_pattern_mismatch": "some text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


class Strict(BaseModel):
    """A mapping of a study's file: no unknown key, no value that is nearly of the right type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Document(Strict):
    """What every study's file has; kinds add their own keys."""

    kind: str = "picks"
    title: Text
    question: Text


D = TypeVar("D", bound=Document)


def checked(path: Path, tree: object, model: type[D]) -> D:
    """The document in a YAML file's tree. Raises GemmsimError for a key or value that has no place in one."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        mistakes = [_sentence(e, model) for e in error.errors(include_url=False)]
        more = f"; and {len(mistakes) - _SHOWN} more mistakes" if len(mistakes) > _SHOWN else ""
        raise GemmsimError(f"{path}: {'; '.join(mistakes[:_SHOWN])}{more}{_no_kind(tree, error)}") from None


def _no_kind(tree: object, error: ValidationError) -> str:
    """What a file without a kind was taken for, where it has keys that are none of that kind's."""
    other = any(e["type"] == "extra_forbidden" and len(e["loc"]) == 1 for e in error.errors(include_url=False))
    return (
        "; without the key kind it is read as one of picks"
        if other and isinstance(tree, dict) and "kind" not in tree
        else ""
    )


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> str:
    key, found, kind = _key(error["loc"]), error["input"], error["type"]
    if kind == "missing":
        return f"missing key {key}"
    if kind == "invalid_key" or error["loc"][-1] == "[key]":
        return f"key {show(found)} is no text: expected text, such as '{found}' in quotes"
    if kind == "extra_forbidden":
        return f"unknown key {key}{_near(error['loc'], model)}"
    return f"{key} is {show(found)}: expected {_expected(error, model)}"


def _expected(error: ErrorDetails, model: type[BaseModel]) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    kind = error["type"]
    if kind in ("greater_than_equal", "less_than_equal", "int_type", "float_type"):
        number = "number" if kind == "float_type" else "whole number"
        return f"a {number}{_range(error['loc'], model)}"
    if kind == "too_short":
        least = context["min_length"]
        return "at least one entry" if least == 1 else f"at least {least} entries"
    return str(context["expected"]) if kind == "literal_error" else _TYPES.get(kind, error["msg"].lower())


def _range(loc: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """The limits that a key's type has, in words."""
    said = [m for m in _metadata(_annotation(loc, model)) if hasattr(m, "ge") or hasattr(m, "le")]
    low = next((m.ge for m in said if getattr(m, "ge", None) is not None), None)
    high = next((m.le for m in said if getattr(m, "le", None) is not None), None)
    return "".join(f" {word} {limit}" for word, limit in (("from", low), ("to", high)) if limit is not None)


def _metadata(annotation: Any) -> Iterator[Any]:
    """What the Annotated types inside a type say."""
    if isinstance(annotation, type) and not get_args(annotation):
        return
    for part in getattr(annotation, "__metadata__", ()):
        yield from getattr(part, "metadata", ()) or (part,)
    for inner in get_args(annotation):
        yield from _metadata(inner)


def _annotation(loc: tuple[int | str, ...], model: type[BaseModel]) -> Any:
    """The type of the key at a place."""
    fields = _fields(loc, model)
    field = next((fields[str(part)] for part in reversed(loc) if str(part) in fields), None)
    return (
        None if field is None else Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    )


def _key(loc: tuple[int | str, ...]) -> str:
    """workload.shapes[2].m"""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _near(loc: tuple[int | str, ...], model: type[BaseModel]) -> str:
    names = list(_fields(loc, model))
    near = get_close_matches(str(loc[-1]), names, n=1)
    return f": did you mean {near[0]}?" if near else f": expected {', '.join(names)}"


def _fields(loc: tuple[int | str, ...], model: type[BaseModel]) -> Mapping[str, Any]:
    """The keys that may stand beside the last one of a place."""
    for part in loc[:-1]:
        field = model.model_fields.get(str(part))
        model = next(models(field.annotation), model) if field is not None else model
    return model.model_fields


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The mappings inside a type such as list[Shape] | None."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models(inner)


def show(found: object) -> str:
    """A found value, short."""
    text = repr(found)
    return text if len(text) <= 60 else text[:57] + "..."
