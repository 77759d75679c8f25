"""Ways to share tiles out along K, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmsim import GemmsimError, predict, rank
from gemmsim.problem import Form
from gemmsim.simulate.schedule import schedule
from gemmsim.simulate.splits import Split, Splits, sharing_families, splits

TILE = {"bm": 64, "bn": 256, "bk": 8, "wm": 32, "wn": 128, "tm": 8, "tn": 16}


def asked(m: int, n: int, k: int, config: dict[str, int] | None = None, **more: Any) -> Splits:
    return splits(m, n, k, **{"gpu": "h200_sxm", "dtype": "fp32", "family": "simt", "config": config, **more})


def way(found: Splits, name: str) -> Split:
    return next(w for w in found.ways if w.way == name)


def test_each_factor_of_the_space_and_the_fastest_of_each() -> None:
    found = asked(512, 512, 32768)
    names = [w.way for w in found.ways]
    assert len(set(names)) == len(names)
    assert set(names) >= {"whole tiles", "stream-K", *(f"split-K {s}" for s in (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24))}
    assert [w.time_s for w in found.ways] == sorted(w.time_s for w in found.ways)
    assert found.ways[0].share == 1
    first = rank(512, 512, 32768, gpu="h200_sxm", dtype="fp32", family="simt", top=1).entries[0]
    assert (found.ways[0].key, found.ways[0].time_s) == (first.key, pytest.approx(first.time_s))


def test_times_and_makespans_are_those_of_predict_and_schedule() -> None:
    found = asked(1000, 2000, 3000, TILE)
    for w in found.ways:
        assert {name: w.config[name] for name in TILE} == TILE
        p = predict(1000, 2000, 3000, gpu="h200_sxm", dtype="fp32", family="simt", config=w.config)
        assert w.time_s == pytest.approx(p.time_s[0], rel=1e-12)
        assert w.makespan_s == schedule(p).makespan_s


def test_partial_sums_are_written_and_read_in_fp32() -> None:
    found = asked(512, 512, 32768, TILE)
    tiles, tile_bytes = 16, 64 * 256 * 4
    assert way(found, "split-K 8").partial_bytes == 2 * 8 * tiles * tile_bytes
    assert way(found, "split-K 8").workspace_bytes == 8 * tiles * tile_bytes
    assert way(found, "whole tiles").partial_bytes == way(found, "whole tiles").sharing_s == 0
    stream = way(found, "stream-K")
    assert (stream.blocks, way(asked(4096, 4096, 4096, TILE), "stream-K").blocks) == (264, 264)
    assert stream.partial_bytes == 2 * 264 * tile_bytes
    assert stream.workspace_bytes >= 264 * tile_bytes + 264 * 4


def test_a_split_of_the_tail_is_shown_where_it_is_one() -> None:
    few, some = asked(512, 512, 32768, TILE), asked(4096, 4096, 4096, TILE)
    assert not [w for w in few.ways if "tail" in w.way]
    assert [w for w in some.ways if "tail" in w.way]


@pytest.mark.parametrize("size", [(512, 512, 32768), (4096, 4096, 4096), (64, 64, 64)])
def test_the_verdict_names_the_winner_and_the_margin(size: tuple[int, int, int]) -> None:
    found = asked(*size)
    whole, best = way(found, "whole tiles"), found.ways[0]
    if best is whole:
        margin = found.ways[1].time_s / best.time_s - 1
        assert found.verdict.startswith(f"whole tiles win by {margin:.1%} over {found.ways[1].way}: ")
    else:
        margin = whole.time_s / best.time_s - 1
        assert found.verdict.startswith(f"{best.way} wins by {margin:.1%} over whole tiles: ")
    assert f"bound by {best.bound_by}" in found.verdict


def test_skinny_problems_are_swapped_where_the_layout_is_there() -> None:
    plain, turned = asked(16, 4096, 4096), asked(16, 4096, 4096, dtype=Form("fp32", layout="NT"))
    assert "A and B not swapped: that is layout TT, which simt has no kernel for" in plain.notes
    swapped = next(w for w in turned.ways if w.swapped)
    other = predict(4096, 16, 4096, gpu="h200_sxm", dtype=Form("fp32", layout="NT"), family="simt",
                    config=swapped.config)  # fmt: skip
    assert swapped.time_s == pytest.approx(other.time_s[0], rel=1e-12)
    assert not [w for w in asked(4096, 4096, 4096).ways if w.swapped]
    fused = asked(16, 4096, 4096, dtype=Form("fp32", epilogue=("bias",)))
    assert "A and B not swapped: expected the plain product of one type" in fused.notes


def test_a_kept_tile_is_turned_with_the_operands() -> None:
    found = asked(16, 4096, 4096, {"bm": 32, "bn": 128}, dtype=Form("fp32", layout="NT"))
    swapped = next(w for w in found.ways if w.swapped)
    assert (swapped.config["bm"], swapped.config["bn"]) == (128, 32)


def test_a_family_that_computes_whole_tiles_alone() -> None:
    found = asked(4096, 4096, 4096, family="triton", dtype="bf16")
    assert [w.way for w in found.ways] == ["whole tiles"]
    assert found.verdict == "whole tiles: no other way can launch"
    assert found.notes == ("triton computes whole tiles alone: simt and wgmma and mma share them out along K",)
    assert sharing_families() == ["simt", "wgmma", "mma"]


def test_what_is_refused_is_named() -> None:
    assert any("slice_columns" in note and "split-K 32" in note for note in asked(512, 512, 512).notes)


def test_a_tile_outside_the_space_in_every_way_of_it() -> None:
    found = asked(1024, 1024, 4096, TILE | {"group_m": 3, "stages": 2})
    assert {w.config["group_m"] for w in found.ways} == {3}
    assert len(found.ways) > 10
    with pytest.raises(
        GemmsimError, match="no configuration of simt with bm=512 bn=512 can launch 64 x 64 x 64 on h200_sxm: "
    ):
        asked(64, 64, 64, {"bm": 512, "bn": 512})


def test_too_many_blocks_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsim.simulate.schedule.MOST_UNEQUAL", 500)
    found = asked(1024, 1024, 4096, TILE)
    marked = [w for w in found.ways if not w.simulated]
    assert {w.way for w in marked} == {f"split-K {slices}" for slices in (8, 10, 12, 16, 20, 24, 32)}  # of 64 tiles
    assert all(w.makespan_s == w.time_s and w.idle_share is None for w in marked)


def test_the_same_each_time() -> None:
    a, b = asked(777, 3333, 1555), asked(777, 3333, 1555)
    assert [w.key for w in a.ways] == [w.key for w in b.ways]
    np.testing.assert_array_equal([w.makespan_s for w in a.ways], [w.makespan_s for w in b.ways])
