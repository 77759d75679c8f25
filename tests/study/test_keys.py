"""The tables of keys in docs/studies.md: of each kind the keys that its file may hold, no more and no less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gemmsim.study.document import Document, models
from gemmsim.study.kinds import KINDS
from gemmsim.study.sweep.plan import Product, Range
from gemmsim.study.workload import Workload

DOCS = Path(__file__).parents[2] / "docs" / "studies.md"
#: mappings whose keys a sentence of the table has, or a table of their own
ELSEWHERE = (Range, Product, Workload)


def section(title: str) -> str:
    """The text below a heading that starts so."""
    (text,) = (part for part in re.split(r"^### ", DOCS.read_text(), flags=re.MULTILINE) if part.startswith(title))
    return text


def rows(text: str) -> dict[str, list[str]]:
    """Key -> the cells of its row; a row of several keys is there under each."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = re.findall(r"`([^`]+)`", cells[0]) if line.startswith("|") else []
        found |= {names[0].rpartition(".")[0] + name if name.startswith(".") else name: cells for name in names}
    return found


def keys(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key that a mapping may hold, and those of the mappings in it."""
    for name, field in model.model_fields.items():
        yield before + name, field
        for inner in models(field.annotation):
            if inner not in ELSEWHERE:
                yield from keys(inner, f"{before}{name}[].")


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_a_kind_has_its_keys(kind: str) -> None:
    said = rows(section(f"`{kind}`"))
    known = dict(keys(import_module(f"gemmsim.study.{kind}").Document))
    assert sorted(said) == sorted(set(known) - set(Document.model_fields))
    for name, cells in said.items():
        assert (cells[3] == "required") == known[name].is_required(), name


def test_mappings_of_several_kinds_have_their_keys() -> None:
    text = DOCS.read_text()
    named = {name.removeprefix("workload.").replace("[]", "") for name in rows(section("Values that"))}
    shape = {f"shapes.{key}" for key in ("name", "m", "n", "k", "count")}
    assert set(Workload.model_fields) | shape <= named
    assert all(f"`{name}`" in text for name in (*Range.model_fields, *Product.model_fields, *Document.model_fields))
    assert all(f"`{kind}`" in section("Keys of every kind") for kind in KINDS)
