"""Sweeps: strict YAML, lines that are predict()'s, wave edges that can be counted by hand, measured rows on lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemmsim import families, predict
from gemmsim.errors import GemmsimError
from gemmsim.study import open_study
from gemmsim.study.sweep import SweepStudy
from gemmsim.study.sweep.outcome import Outcome

GOOD = """\
kind: sweep
title: Waves
question: Where are they?
vary: n
range: {first: 1024, last: 8192, step: 512}
products:
  - {name: wide, m: 2048, k: 1024}
  - {name: tall, m: 4096, k: 512}
gpus: [h200_sxm]
dtype: bf16
curves:
  - name: whole
    config: {wgmma: {bm: 128, bn: 256}}
  - name: stream
    config: {wgmma: {bm: 128, bn: 256, stream_k: 1}}
  - name: best
    space:
      triton: {bm: 128, bn: [128, 256], bk: 64, num_warps: [4, 8], num_stages: 3, group_m: 8}
      mma: {bm: 128, bn: 128, bk: 64, split_k: 1}
baseline: whole
show: [rate, memory]
"""
MEASURED = "gpu,family,dtype,l2,m,n,k,bm,bn,stream_k,time_s\n"


def written(folder: Path, text: str, rows: str = "") -> str:
    (folder / "rows.csv").write_text(MEASURED + rows)
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def opened(folder: Path, text: str, rows: str = "") -> SweepStudy:
    study = open_study(written(folder, text, rows))
    assert isinstance(study, SweepStudy)
    return study


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return opened(tmp_path_factory.mktemp("sweep"), GOOD).run()


RANGE = "range: {first: 1024, last: 8192, step: 512}"
#: what is replaced in GOOD, by what -> what the sentence must name
WRONG = [
    ("vary: n", "vary: x", ("vary is 'x'", "'m', 'n' or 'k'")),
    ("vary: n", "vary: m", ("products[0].m is given", "vary is m")),
    (RANGE, "", ("neither of sizes and range",)),
    (RANGE, RANGE + "\nsizes: [1, 2]", ("both of sizes and range",)),
    (RANGE, "sizes: [256]", ("sizes is [256]", "at least 2 entries")),
    (RANGE, "sizes: [256, 128]", ("sizes[1] is 128", "more than 256")),
    (RANGE, "sizes: [256, 256]", ("sizes[1] is 256", "more than 256")),
    (RANGE, "sizes: [0, 256]", ("sizes[0] is 0", "whole number from 1")),
    ("step: 512", "step: 512, times: 2", ("range has both of step and times",)),
    (", step: 512", "", ("range has neither of step and times",)),
    ("step: 512", "step: 0", ("range.step is 0", "whole number from 1")),
    ("step: 512", "step: 1", ("range.step is 1", "7169 sizes", "2000")),
    ("step: 512", "times: 9", ("range.times is 9", "2 or more")),
    ("step: 512", "times: 1", ("range.times is 1", "whole number from 2 to 64")),
    ("step: 512", "stpe: 512", ("unknown key range.stpe", "did you mean step")),
    ("last: 8192", "last: 1024", ("range.last is 1024", "more than range.first, 1024")),
    ("m: 4096, k: 512", "m: 4096", ("missing key products[1].k",)),
    ("name: tall", "name: wide", ("products[1].name is 'wide'", "twice")),
    ("m: 4096, k: 512", "m: 4096, k: 512, n: 8", ("products[1].n is given", "vary is n")),
    ("gpus: [h200_sxm]", "gpus: [h300]", ("gpus[0]", "'h300'")),
    ("dtype: bf16", "dtype: bf61", ("dtype", "'bf61'", "bf16")),
    ("dtype: bf16", "dtype: fp32", ("curves[0].config", "wgmma", "fp32")),
    ("name: stream", "name: whole", ("curves[1].name is 'whole'", "twice")),
    ("baseline: whole", "baseline: hole", ("'hole'", "did you mean whole", "baseline")),
    ("{wgmma: {bm: 128, bn: 256}}", "{wgma: {bm: 128}}", ("curves[0].config", "'wgma'", "did you mean wgmma")),
    ("{wgmma: {bm: 128, bn: 256}}", "{wgmma: {bmm: 128}}", ("curves[0].config.wgmma", "'bmm'", "did you mean bm")),
    ("{wgmma: {bm: 128, bn: 256}}", "{wgmma: {bm: 1.5}}", ("curves[0].config.wgmma.bm is [1.5]", "whole numbers")),
    ("{wgmma: {bm: 128, bn: 256}}", "{wgmma: {bm: []}}", ("curves[0].config.wgmma.bm is []", "not empty")),
    ("{wgmma: {bm: 128, bn: 256}}", "{wgmma: 5}", ("curves[0].config.wgmma is 5", "mapping")),
    ("config: {wgmma: {bm: 128, bn: 256}}", "config: wgmma", ("curves[0].config is 'wgmma'", "mapping family")),
    ("config: {wgmma: {bm: 128, bn: 256}}", "dtype: bf16", ("curves[0] has neither of config and space",)),
    ("    space:\n", "    config: {}\n    space:\n", ("curves[2] has both of config and space",)),
    ("bm: 128, bn: [128, 256]", "bm: 100", ("curves[2].space.triton", "no configuration of the family's space")),
    ("show: [rate, memory]", "show: [rat]", ("show[0] is 'rat'", "'rate', 'time' or 'memory'")),
    ("show: [rate, memory]", "show: [rate, rate]", ("show[1] is 'rate'", "twice")),
    ("baseline: whole", "rows: [none.csv]", ("rows[0]", "none.csv")),
    ("gpus: [h200_sxm]", "gpus: [h100_sxm]\nrows: [rows.csv]", ("rows[0]: rows.csv is of h200_sxm", "h100_sxm")),
    ("dtype: bf16", "dtype: fp16\nrows: [rows.csv]", ("rows[0]: rows.csv is of wgmma bf16", "wgmma fp16, triton fp16")),
    ("baseline: whole", "rows: [rows.csv]\nl2: warm", ("rows[0]: rows.csv was timed with L2 cold_clean", "warm")),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "named"), WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, named: tuple[str, ...]) -> None:
    text = GOOD.replace(before, after, 1)
    assert text != GOOD
    path = written(tmp_path, text, "h200_sxm,wgmma,bf16,cold_clean,2048,4096,1024,128,256,0,1e-4\n")
    with pytest.raises(GemmsimError) as caught:
        open_study(path)
    assert str(caught.value).startswith(path)
    for word in named:
        assert word in str(caught.value)


def test_too_much_is_refused_before_it_is_predicted(tmp_path: Path) -> None:
    whole = "wgmma: {}, mma: {}, triton: {}"
    many = GOOD.replace("step: 512", "step: 128").replace("{wgmma: {bm: 128, bn: 256}}", "{simt: {}}")
    wide = GOOD.replace("config: {wgmma: {bm: 128, bn: 256}}", f"space: {{{whole}}}").replace("512}", "128}")
    with pytest.raises(GemmsimError, match=r"57 sizes x the configurations .* expected at most 5,000,000"):
        open_study(written(tmp_path, wide))
    with pytest.raises(GemmsimError, match=r"1793 sizes x 3 curves are 10,758 points: expected at most 10,000"):
        open_study(written(tmp_path, GOOD.replace("step: 512", "step: 4")))
    with pytest.raises(GemmsimError, match="family simt has no bf16 kernel"):
        open_study(written(tmp_path, many))


def test_sizes_by_a_step_by_a_factor_and_as_a_list(tmp_path: Path) -> None:
    by_step = opened(tmp_path, GOOD)
    assert by_step.sizes == tuple(range(1024, 8193, 512))
    assert not by_step.log
    by_factor = opened(tmp_path, GOOD.replace("step: 512", "times: 2"))
    assert (by_factor.sizes, by_factor.log) == ((1024, 2048, 4096, 8192), True)
    near, far = (opened(tmp_path, GOOD.replace(RANGE, f"sizes: [8, 16, {last}]")) for last in (64, 256))
    assert (near.sizes, near.log, far.log) == ((8, 16, 64), False, True)


def test_a_line_of_one_configuration_is_what_predict_says(outcome: Outcome) -> None:
    line = outcome.line("h200_sxm", "wide", "stream")
    assert line is not None
    sizes = np.asarray(outcome.study.sizes)
    p = predict(2048, sizes, 1024, gpu="h200_sxm", family="wgmma", config={"bm": 128, "bn": 256, "stream_k": 1},
                terms=True)  # fmt: skip
    assert [x.size for x in line.points] == sizes.tolist()
    assert [x.time_s for x in line.points] == p.time_s.tolist()
    assert [x.bound_by for x in line.points] == p.bound_by
    share = 2 * (2048 * 1024 + 1024 * sizes + 2048 * sizes) / p.time_s / p.gpu.dram_bytes_per_s
    assert [x.memory_share for x in line.points] == pytest.approx(share.tolist())
    assert {x.basis for x in line.points} <= {"fitted", "extrapolated"}


def test_a_line_of_several_is_the_fastest_of_all_families_at_each_size(outcome: Outcome) -> None:
    line = outcome.line("h200_sxm", "tall", "best")
    assert line is not None
    triton, mma = families.space("triton"), families.space("mma")
    kept = {"bm": 128, "bk": 64, "num_stages": 3, "group_m": 8}
    some = np.logical_and.reduce([triton[p] == v for p, v in kept.items()])
    some &= np.isin(triton["bn"], [128, 256]) & np.isin(triton["num_warps"], [4, 8])
    other = {"bm": 128, "bn": 128, "bk": 64, "split_k": 1}
    theirs = np.logical_and.reduce([mma[p] == v for p, v in other.items()])
    for point in line.points[::5]:
        times = [
            predict(4096, point.size, 512, gpu="h200_sxm", family=space.family, config=space.take(np.flatnonzero(keep)))
            for space, keep in ((triton, some), (mma, theirs))
        ]
        assert point.time_s == min(float(p.time_s[p.feasible].min()) for p in times)


def test_wave_edges_are_where_tiles_no_longer_fit_the_waves(outcome: Outcome) -> None:
    """16 rows of tiles, 256 columns each, on 132 SMs: 8 columns of tiles are one wave, 16 two, 24 three."""
    found = [e for e in outcome.edges if e.product == "wide"]
    assert [(e.before.size, e.after.size) for e in found] == [(2048, 2560), (4096, 4608), (6144, 6656)]
    assert [(e.before.waves, e.after.waves) for e in found] == [(1, 2), (2, 3), (3, 4)]
    whole, stream = (outcome.line("h200_sxm", "wide", name) for name in ("whole", "stream"))
    assert whole is not None
    assert stream is not None
    for e in found:
        assert e.drop == pytest.approx(1 - e.after.flops_per_s / e.before.flops_per_s)
        assert e.back("stream") == pytest.approx(
            whole.at(e.after.size).time_s / stream.at(e.after.size).time_s - 1  # type: ignore[union-attr]
        )
        later = [x.size for x in whole.points if x.size > e.after.size and x.flops_per_s >= e.before.flops_per_s]
        assert e.again == (later[0] if later else None)


def test_the_schedule_of_blocks_counts_the_same_waves(outcome: Outcome) -> None:
    assert outcome.edges
    for e in outcome.edges:
        assert e.scheduled is not None
        assert (e.scheduled[0].waves, e.scheduled[1].waves) == (e.before.waves, e.after.waves)
        assert e.scheduled[1].time_s == pytest.approx(e.after.time_s, rel=0.01)


def test_a_baseline_of_several_configurations_has_no_edges(tmp_path: Path) -> None:
    assert not opened(tmp_path, GOOD.replace("baseline: whole", "baseline: best")).run().edges


ROWS = """\
h200_sxm,wgmma,bf16,cold_clean,2048,4096,1024,128,256,0,5e-5
h200_sxm,wgmma,bf16,cold_clean,2048,4096,1024,128,128,0,1e-5
h200_sxm,wgmma,bf16,cold_clean,2048,4000,1024,128,256,0,6e-5
h200_sxm,wgmma,bf16,cold_clean,2048,512,1024,128,256,0,1e-5
h200_sxm,wgmma,bf16,cold_clean,2048,4096,2048,128,256,0,7e-5
h200_sxm,wgmma,bf16,cold_clean,2048,4096,1024,128,256,1,4e-5
"""


def test_measured_rows_lie_on_the_curve_that_has_their_configuration(tmp_path: Path) -> None:
    found = opened(tmp_path, GOOD + "rows: [rows.csv]\n", ROWS).run()
    assert [(x.product, x.curve, x.size, x.time_s, x.rows) for x in found.timed] == [
        ("wide", "whole", 4000, 6e-5, 1),
        ("wide", "whole", 4096, 5e-5, 1),
        ("wide", "stream", 4096, 4e-5, 1),
    ]
    between, on, _ = found.timed
    line = found.line("h200_sxm", "wide", "whole")
    assert line is not None
    assert between.line_s is None
    assert on.line_s == on.predicted_s == line.at(4096).time_s  # type: ignore[union-attr]
    assert on.flops_per_s == pytest.approx(2 * 2048 * 4096 * 1024 / 5e-5)


def test_of_several_measured_rows_of_a_curve_the_fastest_counts(tmp_path: Path) -> None:
    text = GOOD.replace("config: {wgmma: {bm: 128, bn: 256}}", "space: {wgmma: {bm: 128, stream_k: 0}}")
    text = text.replace("step: 512", "step: 1024").replace("  - {name: tall, m: 4096, k: 512}\n", "")
    found = opened(tmp_path, text + "rows: [rows.csv]\n", ROWS).run()
    [best] = [x for x in found.timed if x.curve == "whole" and x.size == 4096]
    assert (best.time_s, best.rows) == (1e-5, 2)
    assert best.config.startswith("128x128x")


def test_sizes_that_cannot_launch_are_missing_with_the_reason(tmp_path: Path) -> None:
    found = opened(tmp_path, GOOD.replace(RANGE, "sizes: [4096, 4100, 4104]")).run()
    line = found.line("h200_sxm", "wide", "whole")
    assert line is not None
    assert [x.size for x in line.points] == [4096, 4104]
    assert line.missing == (4100,)
    assert "16 B" in line.reason


def test_other_gpus_and_one_that_nothing_runs_on(tmp_path: Path) -> None:
    study = opened(tmp_path, GOOD)
    found = study.with_gpus(["a100_sxm_80gb"]).run()
    assert {line.curve for line in found.lines} == {"best"}
    with pytest.raises(GemmsimError, match="'h300'"):
        study.with_gpus(["h300"])
    lone = GOOD[: GOOD.index("  - name: best")] + GOOD[GOOD.index("baseline") :]
    with pytest.raises(GemmsimError, match=r"curves: none can launch on a100_sxm_80gb: .*wgmma"):
        opened(tmp_path, lone).with_gpus(["a100_sxm_80gb"]).run()


def test_progress_is_told_of_every_step(outcome: Outcome) -> None:
    told: list[int] = []
    outcome.study.run(told.append)
    assert sum(told) == outcome.study.steps()


@pytest.mark.parametrize("name", ["wave_quantization", "skinny_decode"])
def test_shipped_sweeps_open_and_are_small(name: str) -> None:
    study = open_study(name)
    assert isinstance(study, SweepStudy)
    assert study.predictions < 1_500_000
