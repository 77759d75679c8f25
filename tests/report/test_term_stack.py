"""A bar a launch, split by term: shares add up, the largest terms have colours, the rest is merged."""

from __future__ import annotations

from typing import Any

import pytest

from gemmsim.report.table import Table, table

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report import charts, look

#: more terms than there are colours, the small ones last
MANY = ("math", "latency", "dram", "shared", "fill", "edge", "split", "launch", "power")


def stacked(times: dict[str, dict[str, float]]) -> Table:
    rows = [{"label": label, "term": t, "time_s": s} for label, mine in times.items() for t, s in mine.items()]
    return table("parts", "Parts", (), rows)


def drawn(parts: Table) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    spec = charts.term_stack(parts).to_dict()
    return spec, next(rows for rows in spec["datasets"].values() if "percent" in rows[0])


def test_pieces_of_a_bar_follow_one_another_and_end_at_all() -> None:
    _, rows = drawn(stacked({"slow": {"dram": 3e-3, "math": 1e-3}, "fast": {"math": 1e-6, "dram": 1e-6}}))
    slow, fast = ([r for r in rows if r["label"] == label] for label in ("slow", "fast"))
    assert [(r["term"], r["from"], r["to"]) for r in slow] == [("dram", 0, 75), ("math", 75, 100)]
    assert [(r["term"], r["from"], r["to"]) for r in fast] == [("dram", 0, 50), ("math", 50, 100)]
    assert [(r["time"], r["whole"]) for r in slow] == [("3.00 ms", "4.00 ms"), ("1.00 ms", "4.00 ms")]


def test_terms_beyond_the_colours_are_one() -> None:
    import vl_convert

    spec, rows = drawn(stacked({"all": {term: 9.0 - i for i, term in enumerate(MANY)}}))
    assert [r["term"] for r in rows] == [*MANY[:7], "other"]
    assert rows[-1]["to"] == pytest.approx(100)
    assert rows[-1]["percent"] == pytest.approx(100 * 3 / 45)
    scale = spec["layer"][0]["encoding"]["color"]["scale"]
    assert len(set(scale["range"])) == len(scale["range"]) == 8
    assert set(scale["range"]) <= set(look.PALETTE)
    assert vl_convert.vegalite_to_vega(spec)["marks"]


def test_a_term_keeps_its_colour_whatever_stands_beside_it() -> None:
    scales = [drawn(stacked({"a": dict.fromkeys(terms, 1.0)}))[0]["layer"][0]["encoding"]["color"]["scale"]
              for terms in (("math", "fill", "dram"), ("dram", "launch", "math", "other"))]  # fmt: skip
    one, two = (dict(zip(scale["domain"], scale["range"], strict=True)) for scale in scales)
    assert (one["math"], one["dram"]) == (two["math"], two["dram"])
    assert two["other"] == look.PALETTE[-1]


def test_a_title_stands_in_the_lane_of_its_bar() -> None:
    parts = stacked({"slow": {"dram": 3e-3, "math": 1e-3}, "fast": {"math": 1e-6}})
    spec, rows = drawn(parts)
    titles = next(rows for rows in spec["datasets"].values() if "percent" not in rows[0])
    bar, title = (layer["encoding"]["y"]["field"] for layer in spec["layer"])
    assert [t[title] for t in titles] == list(dict.fromkeys(r[bar] for r in rows)) == ["slow", "fast"]
    words = spec["layer"][1]["encoding"]["text"]["field"]
    assert [t[words] for t in titles] == ["slow: 4.00 ms", "fast: 1.0 us"]
