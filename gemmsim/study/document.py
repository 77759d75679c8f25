"""What a study's YAML may hold, checked strictly by pydantic; a mistake says file, key, what was found and expected."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from gemmsim.errors import GemmsimError
from gemmsim.problem import MAX_DIMENSION
from gemmsim.yamlfile import read_yaml

Size = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]
_SHOWN = 5  # mistakes named in one message
_TYPES = {
    "int_type": f"a whole number from 1 to {MAX_DIMENSION}",
    "string_type": "text",
    "string_too_short": "some text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "at least one entry",
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Shape(_Strict):
    """One GEMM, `count` times in a pass."""

    name: Text
    m: Size
    n: Size
    k: Size
    count: Size = 1


class Workload(_Strict):
    """A model or a list of shapes.

    config: a model's config.json, beside the study's file; name: what the page calls it, if not by the file's name;
    tokens: variant -> M of each GEMM; tp: GPUs that share the model by tensor parallelism.
    """

    config: Text | None = None
    name: Text | None = None
    tokens: Annotated[dict[Text, Size], Field(min_length=1)] | None = None
    tp: Size | None = None
    shapes: Annotated[list[Shape], Field(min_length=1)] | None = None


class StudyDocument(_Strict):
    """A study of picks, as written."""

    kind: Literal["picks"] = "picks"
    title: Text
    question: Text
    workload: Workload
    gpus: Texts
    families: Texts
    dtypes: Texts
    vary: Any = "space"
    measure: Literal["none", "recorded"] = "none"
    top: Annotated[int, Field(ge=1, le=1000)] = 5
    l2: Literal["cold_clean", "cold_dirty", "warm"] = "cold_clean"


class SearchDocument(_Strict):
    """A study of searches, as written; rows: the recorded curves, a file beside the study's."""

    kind: Literal["search"]
    title: Text
    question: Text
    rows: Text


class RasterDocument(_Strict):
    """A study of raster orders, as written; counters, rows: the same launches counted and timed, files beside it."""

    kind: Literal["raster"]
    title: Text
    question: Text
    counters: Text
    rows: Text


Document = StudyDocument | SearchDocument | RasterDocument
_Model = type[StudyDocument] | type[SearchDocument] | type[RasterDocument]
#: kind -> what a study of that kind may hold
KINDS: Mapping[str, _Model] = {"picks": StudyDocument, "search": SearchDocument, "raster": RasterDocument}


def read_document(path: Path) -> Document:
    """The study in a YAML file. Raises GemmsimError for a key or value that has no place in one."""
    tree = read_yaml(path)
    model = _model(path, tree)
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        mistakes = [_sentence(e, model) for e in error.errors(include_url=False)]
        more = f"; and {len(mistakes) - _SHOWN} more mistakes" if len(mistakes) > _SHOWN else ""
        raise GemmsimError(f"{path}: " + "; ".join(mistakes[:_SHOWN]) + more) from None


def _model(path: Path, tree: object) -> _Model:
    kind = tree.get("kind", "picks") if isinstance(tree, dict) else "picks"
    if not isinstance(kind, str) or kind not in KINDS:
        raise GemmsimError(f"{path}: kind is {show(kind)}: expected {', '.join(KINDS)}")
    return KINDS[kind]


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> str:
    key, found, kind = _key(error["loc"]), error["input"], error["type"]
    if kind == "missing":
        return f"missing key {key}"
    if kind == "extra_forbidden":
        return f"unknown key {key}{_near(error['loc'], model)}"
    return f"{key} is {show(found)}: expected {_expected(error)}"


def _expected(error: ErrorDetails) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    if error["type"] in ("greater_than_equal", "less_than_equal"):
        high = 1000 if error["loc"][-1] == "top" else MAX_DIMENSION
        return f"a whole number from 1 to {high}"
    if error["type"] == "literal_error":
        return str(context["expected"])
    return _TYPES.get(error["type"], error["msg"].lower())


def _key(loc: tuple[int | str, ...]) -> str:
    """workload.shapes[2].m"""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _near(loc: tuple[int | str, ...], model: type[BaseModel]) -> str:
    names = list(_fields(loc[:-1], model))
    near = get_close_matches(str(loc[-1]), names, n=1)
    return f": did you mean {near[0]}?" if near else f": expected {', '.join(names)}"


_INNER: Mapping[str, type[BaseModel]] = {"workload": Workload, "shapes": Shape}


def _fields(loc: tuple[int | str, ...], model: type[BaseModel]) -> Mapping[str, Any]:
    """The keys that may stand at a place."""
    for part in loc:
        model = _INNER.get(str(part), model)
    return model.model_fields


def show(found: object) -> str:
    """A found value, short."""
    text = repr(found)
    return text if len(text) <= 60 else text[:57] + "..."
