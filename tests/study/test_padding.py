"""A study of padding: its file's mistakes named, gains that agree with `pad`, curves with rank, recorded neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies_under_test import opened

import gemmsim
from gemmsim import GemmsimError
from gemmsim.ranking import rank
from gemmsim.study.padding import PaddingStudy
from gemmsim.study.padding.neighbours import neighbours
from gemmsim.study.padding.outcome import Outcome, aligned_bytes

GOOD = """\
kind: padding
title: T
question: Q
problems:
  - {name: odd K, m: 8192, n: 1280, k: 588, curve: {k: [586, 592, 2]}}
  - {name: odd M, m: 1023, n: 512, k: 512}
gpus: [h200_sxm]
kernels:
  Triton: [triton]
  both: [wgmma, mma]
dtypes: [bf16]
"""
HEAD = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,num_warps,num_stages,group_m,time_s\n"


def rows(sizes: tuple[int, int, int], times: dict[int, float], l2: str = "cold_clean") -> str:
    m, n, k = sizes
    return "".join(f"h200_sxm,triton,bf16,{l2},{m},{n},{k},{bm},128,64,4,3,8,{t}\n" for bm, t in times.items())


TIMES = {16: 5e-5, 32: 4e-5, 64: 3e-5, 128: 2e-5, 256: 6e-5}
ROWS = HEAD + rows((8192, 1280, 588), TIMES) + rows((8192, 1280, 592), {bm: t / 2 for bm, t in TIMES.items()})


def study(folder: Path, text: str = GOOD, csv: str = "") -> PaddingStudy:
    if not csv:
        return opened(PaddingStudy, folder, text)
    return opened(PaddingStudy, folder, text + "rows: [rows.csv]\n", rows=csv)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return study(tmp_path_factory.mktemp("pad"), csv=ROWS).run()


WRONG = [
    ("title: T", "titel: T", ("unknown key titel", "did you mean title")),
    ("m: 8192", "m: 0", ("problems[0].m is 0", "whole number from 1")),
    ("name: odd M", "name: odd K", ("problems[1].name is 'odd K'", "twice")),
    ("curve: {k:", "curve: {q:", ("problems[0].curve is of q", "one of m, n, k")),
    ("[586, 592, 2]", "[592, 586]", ("problems[0].curve.k is [592, 586]", "[first, last]")),
    ("[586, 592, 2]", "[586]", ("problems[0].curve.k is [586]", "[first, last]")),
    ("[586, 592, 2]", "[1, 2000000000]", ("problems[0].curve.k has 2000000000 sizes", "at most 200")),
    ("[586, 592, 2]", "[1, 1000]", ("problems[0].curve.k has 1000 sizes", "at most 200")),
    ("[586, 592, 2]", "[586, 592, 0]", ("problems[0].curve", "whole number from 1")),
    ("gpus: [h200_sxm]", "gpus: [h300]", ("gpus[0]", "'h300'")),
    ("[wgmma, mma]", "[wgmma, mm]", ("'mm' in kernels.both[1]", "did you mean mma")),
    ("[wgmma, mma]", "[simt]", ("kernels.both[0]", "no bf16 kernel")),
    ("[wgmma, mma]", "[mma, mma]", ("kernels.both[1] is 'mma'", "twice")),
    ("dtypes: [bf16]", "dtypes: [bf61]", ("dtypes[0]", "'bf61'")),
    ("dtypes: [bf16]", "dtypes: [bf16]\nrows: [none.csv]", ("rows[0]", "none.csv")),
    (
        "  - {name: odd M, m: 1023, n: 512, k: 512}\n",
        "".join(f"  - {{name: s{i}, m: {i}, n: 64, k: 64}}\n" for i in range(1, 61)),
        ("61 x 1 GPUs x 2 kernels x 1 dtypes are 122 cases", "at most 120"),
    ),
]


@pytest.mark.parametrize(("old", "new", "names"), WRONG, ids=[f"{i}: {w[1][:30]}" for i, w in enumerate(WRONG)])
def test_a_wrong_study_names_file_key_found_and_expected(
    tmp_path: Path, old: str, new: str, names: tuple[str, ...]
) -> None:
    assert old in GOOD
    with pytest.raises(GemmsimError) as caught:
        study(tmp_path, GOOD.replace(old, new, 1))
    sentence = str(caught.value)
    assert sentence.startswith(str(tmp_path / "mine.yaml"))
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("gpus: [h200_sxm]", "gpus: [h100_sxm]", ("rows[0]: rows.csv is of h200_sxm", "h100_sxm")),
        ("  Triton: [triton]\n", "", ("rows[0]: rows.csv is of triton bf16", "wgmma bf16, mma bf16")),
    ],
)
def test_rows_that_would_stand_nowhere_are_refused(tmp_path: Path, old: str, new: str, names: tuple[str, ...]) -> None:
    with pytest.raises(GemmsimError) as caught:
        study(tmp_path, GOOD.replace(old, new), ROWS)
    assert [name for name in names if name not in str(caught.value)] == [], str(caught.value)


def test_gains_are_what_pad_says_of_the_whole_space(outcome: Outcome) -> None:
    for case in outcome.cases:
        if case.kernel != "Triton":
            continue
        a = case.asked
        whole = gemmsim.pad(a.m, a.n, a.k, gpu="h200_sxm", family="triton")
        assert case.padding.base.time_s == whole.base.time_s
        assert case.padding.advice == whole.advice


def test_what_cannot_launch_is_said_and_another_family_taken(outcome: Outcome) -> None:
    odd = next(c for c in outcome.cases if (c.kernel, c.asked.name) == ("both", "odd K"))
    assert odd.refused["wgmma"].startswith("stride_a: rows of A in memory lie no multiple of 16 B apart")
    assert odd.padding.base.family == "mma"
    assert odd.padding.base.time_s == rank(8192, 1280, 588, gpu="h200_sxm", family="mma", top=1).entries[0].time_s
    assert odd.padding.best is not None
    assert odd.padding.best.family == "wgmma"
    even = next(c for c in outcome.cases if (c.kernel, c.asked.name) == ("both", "odd M"))
    assert even.refused == {}
    assert even.padding.best is None


def test_a_curve_is_the_best_of_each_size(outcome: Outcome) -> None:
    triton, both = outcome.curves
    assert [p.size for p in triton.points] == [586, 588, 590, 592]
    assert [p.aligned_bytes for p in triton.points] == [4, 8, 4, 32]
    assert [p.family for p in both.points] == ["mma", "mma", "mma", "wgmma"]
    for curve, family in ((triton, "triton"), (both, "wgmma")):
        last = rank(8192, 1280, 592, gpu="h200_sxm", family=family, top=1).entries[0]
        assert curve.points[-1].time_s == pytest.approx(last.time_s)
        assert curve.points[-1].key == last.key


def test_alignment_is_of_row_strides_alone(outcome: Outcome) -> None:
    odd_k, odd_m = outcome.study.problems
    assert [aligned_bytes(odd_k, dtype, 24) for dtype in ("bf16", "fp8", "tf32")] == [16, 8, 32]
    assert aligned_bytes(odd_m, "bf16", 24) == 0  # no curve, no dimension


def test_measured_rows_on_a_curve_are_the_fastest_of_their_size(outcome: Outcome) -> None:
    assert [(h.kernel, h.size, h.time_s, h.rows) for h in outcome.held] == [
        ("Triton", 588, 2e-5, 5), ("Triton", 592, 1e-5, 5)]  # fmt: skip
    assert all(h.key.startswith("128x128x64") for h in outcome.held)
    for h in outcome.held:
        config = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 3, "group_m": 8}
        p = gemmsim.predict(8192, 1280, h.size, gpu="h200_sxm", family="triton", config=config)
        assert h.predicted_s == pytest.approx(float(p.time_s[0]))


def test_neighbours_are_of_the_same_configurations_the_less_aligned_first(outcome: Outcome, tmp_path: Path) -> None:
    (found,) = outcome.neighbours
    assert (found.sizes, found.other) == ((8192, 1280, 588), (8192, 1280, 592))
    assert found.aligned_bytes == (8, 32)
    assert found.configurations == 5
    assert found.measured_gain == pytest.approx(0.5)
    assert found.predicted_s[0] > found.predicted_s[1] > 0
    far = study(tmp_path, csv=HEAD + rows((8192, 1280, 512), TIMES) + rows((8192, 1280, 592), TIMES)).rows[0]
    assert list(neighbours(far)) == []
    few = dict.fromkeys((16, 32, 64, 128), 1e-5)
    short = study(tmp_path, csv=HEAD + rows((8192, 1280, 588), TIMES) + rows((8192, 1280, 592), few)).rows[0]
    assert list(neighbours(short)) == []


def test_progress_reaches_its_end(tmp_path: Path) -> None:
    told: list[int] = []
    found = study(tmp_path, GOOD.replace("  both: [wgmma, mma]\n", ""))
    found.run(told.append)
    assert sum(told) == found.steps() == 2
    assert [g.name for g in found.with_gpus(["a100_sxm_80gb"]).gpus] == ["a100_sxm_80gb"]
