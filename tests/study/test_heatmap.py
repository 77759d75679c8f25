"""A study of heat maps: its file's mistakes named, cells that agree with predict(), one tile for all, moves, rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies_under_test import opened

from gemmsim import GemmsimError, predict
from gemmsim.model.predict import Prediction
from gemmsim.study.heatmap import HeatmapStudy
from gemmsim.study.heatmap.outcome import Outcome
from gemmsim.study.recorded import DEFAULTS

GOOD = """\
kind: heatmap
title: T
question: Q
workload:
  shapes:
    - {name: square, m: 1024, n: 1024, k: 1024}
    - {name: thin, m: 64, n: 4096, k: 1024}
gpus: [a100_sxm_80gb, h200_sxm]
families: [triton]
dtypes: [bf16]
vary:
  triton: {bm: [64, 128, 256], bn: [64, 128, 256], bk: [64, 128], num_warps: [4, 8], num_stages: [3, 4]}
"""
HEAD = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,num_warps,num_stages,group_m,time_s\n"


def row(m: int, bm: int, bn: int, time_s: float, stages: int = 3, l2: str = "cold_clean") -> str:
    return f"h200_sxm,triton,bf16,{l2},{m},{1024 if m > 64 else 4096},1024,{bm},{bn},64,4,{stages},8,{time_s}\n"


ROWS = HEAD + row(1024, 64, 64, 1e-5) + row(1024, 64, 64, 9e-6, 4) + row(1024, 128, 64, 1.2e-5) + row(64, 64, 64, 8e-6)


def study(folder: Path, text: str = GOOD, rows: str = "") -> HeatmapStudy:
    if not rows:
        return opened(HeatmapStudy, folder, text)
    return opened(HeatmapStudy, folder, text + "rows: [rows.csv]\n", rows=rows)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return study(tmp_path_factory.mktemp("heat"), rows=ROWS).run()


WRONG = [
    ("title: T", "titel: T", ("unknown key titel", "did you mean title")),
    ("dtypes: [bf16]", "dtypes: [bf16]\nx: bk\ny: bk", ("y is 'bk', as x is", "two parameters")),
    ("dtypes: [bf16]", "dtypes: [bf16]\nx: stages", ("'stages' in x", "did you mean num_stages")),
    ("dtypes: [bf16]", "dtypes: [bf16]\nrows: [none.csv]", ("rows[0]", "none.csv")),
    ("dtypes: [bf16]", "dtypes: [bf16]\nrows: []", ("rows is []", "at least one entry")),
    ("dtypes: [bf16]", "dtypes: [bf16]\nl2: hot", ("l2 is 'hot'", "cold_clean")),
    ("gpus: [a100_sxm_80gb, h200_sxm]", "gpus: [h300]", ("gpus[0]", "'h300'")),
    ("families: [triton]", "families: [tritn]", ("families[0]", "did you mean triton")),
    ("families: [triton]\ndtypes: [bf16]", "families: [wgmma]\ndtypes: [fp8]", ("families", "layout NN")),
    ("bm: [64, 128, 256]", "bm: []", ("vary.triton.bm is []", "not empty")),
    ("bm: [64, 128, 256]", f"bm: {list(range(1, 66))}", ("y: triton has 65 values of bm", "at most 64")),
    (
        "    - {name: thin, m: 64, n: 4096, k: 1024}\n",
        "".join(f"    - {{name: s{i}, m: {i}, n: 64, k: 64}}\n" for i in range(1, 31)),
        ("31 GEMMs x 2 GPUs x 1 kernels are 62 maps", "at most 60"),
    ),
]


@pytest.mark.parametrize(("old", "new", "names"), WRONG, ids=[f"{i}: {w[1][:30]}" for i, w in enumerate(WRONG)])
def test_a_wrong_study_names_file_key_found_and_expected(
    tmp_path: Path, old: str, new: str, names: tuple[str, ...]
) -> None:
    text = GOOD.replace(old, new)
    if "wgmma" in new:
        text = text[: text.index("vary:")].replace("a100_sxm_80gb, ", "")
    assert text != GOOD
    with pytest.raises(GemmsimError) as caught:
        study(tmp_path, text)
    sentence = str(caught.value)
    assert sentence.startswith(str(tmp_path / "mine.yaml"))
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence


def cell_times(p: Prediction) -> dict[tuple[int, int], float]:
    """The same by hand: the least time of each (bn, bm)."""
    found: dict[tuple[int, int], float] = {}
    for x, y, t in zip(p.config["bn"].tolist(), p.config["bm"].tolist(), p.time_s.tolist(), strict=True):
        if t == t:
            found[x, y] = min(t, found.get((x, y), np.inf))
    return found


def test_every_cell_is_the_least_of_its_configurations(outcome: Outcome) -> None:
    space = outcome.study.spaces["triton"]
    assert len(outcome.maps) == outcome.study.steps() == 4
    for m in outcome.maps:
        p = predict(m.work.m, m.work.n, m.work.k, gpu=m.gpu, config=space)
        by_hand = cell_times(p)
        assert {place: c.time_s for place, c in m.launching.items()} == by_hand
        assert m.best is not None
        assert m.best.time_s == np.nanmin(p.time_s)
        assert m.near == sum(t <= 1.05 * m.best.time_s for t in by_hand.values())
        assert sum(c.configurations for c in m.cells) == p.feasible.sum()
        assert len(m.cells) == 9


def test_bound_and_key_are_those_of_the_fastest(outcome: Outcome) -> None:
    m = outcome.maps[0]
    assert m.best is not None
    space = outcome.study.spaces["triton"]
    p = predict(m.work.m, m.work.n, m.work.k, gpu=m.gpu, config=space, terms=True)
    i = int(np.nanargmin(p.time_s))
    assert m.best.bound_by == p.bound_by[i]
    assert m.best.key.startswith(f"{m.best.y}x{m.best.x}x{space['bk'][i]}_w{space['num_warps'][i]}")


def test_one_configuration_for_all_loses_least_in_its_worst_gemm(outcome: Outcome) -> None:
    space, works = outcome.study.spaces["triton"], outcome.study.works
    times = np.stack([predict(w.m, w.n, w.k, gpu="h200_sxm", config=space).time_s for w in works])
    losses = times / np.nanmin(times, axis=1, keepdims=True) - 1
    fixed = next(f for f in outcome.fixed if f.gpu == "h200_sxm")
    assert max(fixed.losses) == pytest.approx(np.nanmin(losses.max(axis=0)))


def test_moves_compare_chips_by_coefficients_of_one_kind(outcome: Outcome) -> None:
    space = outcome.study.spaces["triton"]
    assert [m.basis for m in outcome.moves] == [DEFAULTS, DEFAULTS]  # the A100 has no fit
    for move in outcome.moves:
        w = move.work
        times = {g: cell_times(predict(w.m, w.n, w.k, gpu=g, config=space, calibrated="none")) for g in move.best}
        assert move.best == {g: min(cells, key=lambda place: cells[place]) for g, cells in times.items()}
        there = times["h200_sxm"]
        assert move.losses["a100_sxm_80gb", "h200_sxm"] == pytest.approx(
            there[move.best["a100_sxm_80gb"]] / min(there.values()) - 1
        )


def test_measured_cells_hold_the_fastest_row_and_the_fastest_predicted_of_the_same_rows(outcome: Outcome) -> None:
    square, thin = outcome.measured
    assert (square.rows, thin.rows) == (3, 1)
    small = next(c for c in square.cells if (c.x, c.y) == (64, 64))
    assert (small.rows, small.measured_s) == (2, 9e-6)
    p = predict(1024, 1024, 1024, gpu="h200_sxm",
                config={"bm": 64, "bn": 64, "bk": 64, "num_warps": 4, "num_stages": [3, 4]})  # fmt: skip
    assert small.predicted_s == pytest.approx(p.time_s.min())
    assert small.picked_s == [1e-5, 9e-6][int(np.argmin(p.time_s))]


def test_rows_of_another_condition_are_left_out_and_named(tmp_path: Path) -> None:
    found = study(tmp_path, rows=HEAD + row(1024, 64, 64, 1e-5, l2="cold_dirty")).with_gpus(["h200_sxm"]).run()
    assert found.measured == ()
    assert found.elsewhere == ("triton cold_dirty",)


def test_a_kernel_that_a_gpu_cannot_run_has_a_map_of_reasons(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("vary:")].replace("[triton]", "[wgmma]")
    vary = "vary:\n  wgmma: {bm: [8, 128], bn: [64, 256], consumers: [2]}\n"
    found = study(tmp_path, text + vary).run()
    a100, h200 = (next(m for m in found.maps if m.gpu == gpu) for gpu in ("a100_sxm_80gb", "h200_sxm"))
    assert a100.best is None
    assert {c.reason.split(":")[0] for c in a100.cells} == {"wgmma"}
    assert {c.place: c.reason.split(":")[0] for c in h200.cells} == {
        (64, 8): "x_side", (256, 8): "x_side", (64, 128): "", (256, 128): "",
    }  # fmt: skip
    assert found.moves == ()


def test_cells_that_the_space_has_nothing_for_say_why(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("vary:")].replace("[triton]", "[wgmma]")
    found = study(tmp_path, text).with_gpus(["h200_sxm"]).run()
    m, space = found.maps[0], found.study.spaces["wgmma"]
    assert len(m.cells) == len(set(space["bm"].tolist())) * len(set(space["bn"].tolist()))
    small = next(c for c in m.cells if c.place == (8, 8))
    assert small.reason.startswith("x_side: bm (bn with swap) is no multiple of 64")
    assert all(c.reason for c in m.cells if c.time_s != c.time_s)


def test_other_axes_and_names(tmp_path: Path) -> None:
    found = study(tmp_path, GOOD + "x: num_stages\ny: bk\n")
    assert found.tile(3, 64) == "bk 64, num_stages 3"
    assert {c.place for c in found.run().maps[0].cells} == {(3, 64), (4, 64), (3, 128), (4, 128)}
