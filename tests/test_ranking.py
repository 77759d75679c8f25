"""Ranking, explanation, nearest configurations, cuBLAS' recorded times."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from gemmsim import Form, explain, families, predict, rank, ranking
from gemmsim.errors import GemmsimError
from gemmsim.explanation import nearest
from gemmsim.model.demand import TERMS
from gemmsim.paths import data_folder

ONE_BLOCK = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 8, "num_stages": 5, "group_m": 8}
CASES = [(family, families.family(family).DTYPES[0]) for family in families.FAMILIES]


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_every_feasible_configuration_sorted_and_as_predict_says(family: str, dtype: str) -> None:
    found = rank(1000, 1024, 512, gpu="h200_sxm", dtype=dtype, family=family, top=25)
    times = [e.time_s for e in found.entries]
    space = families.space(family)
    every = predict(1000, 1024, 512, gpu="h200_sxm", dtype=dtype, family=family, config=space)
    assert times == sorted(times)
    assert times[0] == np.nanmin(every.time_s)
    assert found.configurations == len(space)
    assert found.feasible == int(every.feasible.sum())
    assert sum(found.refused.values()) == len(space) - found.feasible
    entry = found.entries[7]
    alone = predict(1000, 1024, 512, gpu="h200_sxm", dtype=dtype, family=family, config=entry.config, terms=True)
    assert entry.time_s == pytest.approx(alone.time_s[0])
    assert entry.bound_by == alone.bound_by[0]
    assert set(entry.saved) == set(entry.demand) == set(TERMS)
    assert found.entries[0].share == 1


def test_all_of_a_ranking() -> None:
    found = rank(64, 64, 64, gpu="h200_sxm", dtype="fp16", top=None)
    assert len(found.entries) == found.feasible
    assert len({(e.family, e.key) for e in found.entries}) == found.feasible


def test_distinct_is_the_fastest_of_each_tile_in_the_same_order() -> None:
    asked = {"gpu": "h200_sxm", "dtype": "fp32", "family": "all"}
    every = rank(1000, 1000, 1000, top=None, **asked).entries  # type: ignore[arg-type]
    found = rank(1000, 1000, 1000, top=None, distinct=True, **asked).entries  # type: ignore[arg-type]

    def tile(entry: ranking.Entry) -> tuple[object, ...]:
        return entry.family, *(entry.config.get(name) for name in ranking.TILE)

    fastest: dict[tuple[object, ...], str] = {}
    for entry in every:
        fastest.setdefault(tile(entry), entry.key)
    assert [(tile(e), e.key) for e in found] == list(fastest.items())


def test_ties_share_a_rank() -> None:
    assert ranking._ranks(np.asarray([1, 1.0005, 1.0011, 1.002, 1.01])) == [1, 1, 3, 3, 5]
    found = rank(16, 4096, 4096, gpu="h200_sxm", top=4)  # one row of tiles: the raster does not matter
    assert [e.rank for e in found.entries] == [1, 1, 1, 1]
    assert all(e.tied for e in found.entries)


def test_fewer_sms_are_slower_and_have_no_recorded_time() -> None:
    whole, part = (rank(4096, 4096, 4096, gpu="h200_sxm", num_sms=n, top=1) for n in (None, 66))
    assert part.entries[0].time_s > 1.5 * whole.entries[0].time_s
    assert (whole.gpu.sm_count, part.gpu.sm_count) == (132, 66)
    assert whole.cublas is not None
    assert part.cublas is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"top": 0}, "top = 0: expected"),
        ({"dtype": "fp64", "family": "triton"}, "family triton has no fp64 kernel: it has bf16, fp16"),
        ({"dtype": "fp32", "family": "triton"}, "family triton has no fp32 kernel"),
        ({"family": "cutlas"}, "unknown family 'cutlas'"),
        ({"num_sms": 133}, "expected 1 to 132"),
        ({"without": ["air"]}, "unknown effect 'air'"),
    ],
)
def test_wrong_questions(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(GemmsimError, match=sentence):
        rank(64, 64, 64, **({"gpu": "h200_sxm"} | options))  # type: ignore[arg-type]


def test_cublas_in_the_asked_condition_or_the_recorded_one() -> None:
    assert ranking.cublas("h200_sxm", "fp32", 256, 256, 256, "cold_dirty").time_s == 1.0928000323474408e-05
    clean = ranking.cublas("h200_sxm", "fp32", 256, 256, 256, "cold_clean")
    assert (clean.time_s, clean.l2) == (1.113600004464388e-05, "cold_clean")
    other = ranking.cublas("h200_sxm", "fp16", 4096, 4096, 4096, "warm")
    assert other.l2 == "cold_dirty"
    assert ranking.cublas("h200_sxm", "bf16", 4096, 4096, 4095) is None
    assert ranking.cublas("a100_sxm_80gb", "bf16", 4096, 4096, 4096) is None


def test_a_disturbed_recording_counts_by_its_minimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g").mkdir()
    text = b"gpu,l2,dtype,m,n,k,median_s,min_s\ng,warm,float32,1,2,3,5e-6,2e-6\n"
    (tmp_path / "g" / "cublas.csv.gz").write_bytes(gzip.compress(text))
    monkeypatch.setattr(ranking, "data_folder", lambda name: tmp_path)
    assert ranking.cublas("g", "fp32", 1, 2, 3) == ranking.Recorded(2e-6, "warm")


def test_explain_tells_alignment_from_waves() -> None:
    """4096 x 4097 is exactly 8 waves of 132 tiles: alignment alone. 4097 x 4097 begins a ninth: both."""
    rows, both = (explain(m, 4097, 4096, gpu="h200_sxm", config=ONE_BLOCK, calibrated="none") for m in (4096, 4097))
    assert "waves: 1056 tiles are exactly 8 waves of 132 blocks, one an SM: costs nothing" in rows.sentences
    assert any(s.startswith("alignment: N = 4097 is no multiple of 16: costs") for s in rows.sentences)
    assert any(s.startswith("of its shape, alignment costs most; waves") for s in rows.sentences)
    waves = next(s for s in both.sentences if s.startswith("waves"))
    assert waves.startswith("waves: 1089 tiles are 8 full waves of 132 blocks, one an SM, and a last one of 33: costs")
    assert not waves.endswith("nothing")
    for found in (rows, both):
        assert found.best is not None
        assert found.best.what == "N padded from 4097 to 4112"


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_terms_and_changes_are_those_of_predict(family: str, dtype: str) -> None:
    found = explain(512, 1024, 768, gpu="h100_pcie", dtype=dtype, family=family)
    base = found.prediction.config.row(0)
    assert [t.name for t in found.terms] == list(TERMS)
    assert all(t.meaning for t in found.terms)
    gains = [c.gain_s for c in found.changes]
    assert gains == sorted(gains, reverse=True)
    name, value = found.changes[0].what.split(" instead")[0].split(" ")
    changed = predict(512, 1024, 768, gpu="h100_pcie", dtype=dtype, family=family, config=base | {name: int(value)})
    assert found.changes[0].time_s == pytest.approx(changed.time_s[0])


def test_no_change_worth_naming() -> None:
    everything = [t for t in TERMS if t != "launch"]
    found = explain(4096, 4096, 4096, gpu="h200_sxm", without=everything)
    assert found.best is None
    assert found.advice == "no single change gains more than 1 %"


def test_padding_of_k_and_of_both() -> None:
    found = explain(4096, 4097, 4100, gpu="h200_sxm")
    whats = {c.what for c in found.changes if "padded" in c.what}
    n, k = "N padded from 4097 to 4112", "K padded from 4100 to 4112"
    assert whats == {n, k, f"{n} and {k}"}


def test_what_cannot_launch_names_the_nearest_that_can() -> None:
    config = ONE_BLOCK | {"bn": 256, "group_m": 64}
    with pytest.raises(GemmsimError) as caught:
        explain(4096, 4096, 4096, gpu="h200_sxm", config=config)
    text = str(caught.value)
    assert "triton 128x256x64_w8s5g64 cannot launch on h200_sxm: smem_capacity: 245760 B" in text
    assert "limit 232448; nearest that fit: 128x256x64_w8s4g64, " in text
    near = nearest(predict(4096, 4096, 4096, gpu="h200_sxm", config=config), count=5)
    columns = {name: np.asarray([c[name] for c in near]) for name in near[0]}
    assert predict(4096, 4096, 4096, gpu="h200_sxm", config=columns).feasible.all()


@pytest.mark.parametrize(
    ("sizes", "layout", "odd"),
    [((4097, 4096, 4096), "TN", "M"), ((4096, 4096, 4097), "TN", ""), ((4096, 4097, 4096), "NT", ""),
     ((4096, 4096, 4097), "NT", "K"), ((4096, 4097, 4096), "NN", "N")],
)  # fmt: skip
def test_alignment_is_that_of_the_layouts_row_strides(sizes: tuple[int, int, int], layout: str, odd: str) -> None:
    found = explain(*sizes, gpu="h200_sxm", dtype=Form("bf16", layout=layout))
    sentence = next(s for s in found.sentences if s.startswith("alignment"))
    assert (f"{odd} = 4097 is no multiple of 16: costs" in sentence) == bool(odd)
    assert ("costs nothing" in sentence) == (not odd)
    assert not odd or (found.best and found.best.what == f"{odd} padded from 4097 to 4112")


def test_a_calibration_of_another_gpu_is_extrapolated() -> None:
    fitted = str(data_folder("hwspecs") / "calibration" / "h200_sxm.triton.yaml")
    for gpu, elsewhere in (("h200_sxm", False), ("h200_sxm:7g.141gb", False), ("h100_sxm", True)):
        assert predict(4096, 4096, 4096, gpu=gpu, calibrated=fitted).extrapolated[0] == elsewhere


def test_every_entry_has_its_interval() -> None:
    for entry in rank(4096, 4096, 4096, gpu="h200_sxm", top=3).entries:
        assert entry.time_lo_s < entry.time_s < entry.time_hi_s
