"""A study of evidence: rows found and filtered, held against predict() called directly, picks ranked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmsim import GemmsimError, load_gpu, predict
from gemmsim.study import open_study
from gemmsim.study.evidence import EvidenceStudy
from gemmsim.study.evidence.judged import Evidence, judged
from gemmsim.study.recorded import FITTED, NEW, predicted, recorded_rows
from gemmsim.validate import score

YAML = "kind: evidence\ntitle: T\nquestion: Q\ngpus: [h200_sxm]\nfamilies: [smem_tile]\nrows: [mine.csv]\n"
HEAD = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,pad,status,time_s"
TILES = [(8, 0), (8, 1), (16, 0), (16, 1), (32, 0), (32, 1)]
TIMES = (4e-4, 3e-4, 2e-4, 5e-4, 6e-4, 7e-4)
ROWS = [f"h200_sxm,smem_tile,fp32,cold_dirty,777,512,512,{b},{b},{b},{pad},ok,{t}"
        for (b, pad), t in zip(TILES, TIMES, strict=True)]  # fmt: skip


def written(folder: Path, text: str = YAML, rows: list[str] = ROWS) -> str:
    (folder / "mine.csv").write_text("\n".join((HEAD, *rows)) + "\n")
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def opened(path: str) -> EvidenceStudy:
    study = open_study(path)
    assert isinstance(study, EvidenceStudy)
    return study


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    told: list[int] = []
    study = opened(written(tmp_path_factory.mktemp("study")))
    answer = study.run(told.append)
    assert sum(told) == study.steps()
    return answer


def test_shipped_and_own_rows_stand_beside_what_predict_says(found: Evidence) -> None:
    assert [(r.file, r.basis) for r in found.recorded] == [("smem_tile_fp32.csv.gz", FITTED), ("mine.csv", NEW)]
    mine = found.rows.take(found.rows.file == "mine.csv")
    b, pad = np.asarray(TILES).T
    p = predict(777, 512, 512, gpu="h200_sxm", dtype="fp32", family="smem_tile", l2="cold_dirty",
                config={"bm": b, "bn": b, "bk": b, "pad": pad})  # fmt: skip
    assert mine.predicted_s == pytest.approx(p.time_s)
    assert mine.off == pytest.approx(p.time_s / np.asarray(TIMES) - 1)
    assert mine.inside.tolist() == [low <= t <= high for low, high, t in zip(*p.interval_s, TIMES, strict=True)]
    assert mine.flops == pytest.approx(2 * 777 * 512 * 512)
    assert mine.compulsory_bytes == pytest.approx(4 * 512 * (777 + 512 + 777))
    assert set(mine.shape_class) == {"small"}
    assert found.refused == 0


def test_errors_of_a_file_are_those_of_validate(found: Evidence) -> None:
    shipped = found.recorded[0]
    said = score(shipped.rows, shipped.prediction.calibration)["all"]
    mine = found.rows.take(found.rows.file == shipped.file)
    assert np.abs(mine.off).mean() == pytest.approx(said.mape)
    assert mine.inside.mean() == pytest.approx(said.coverage)
    regrets = [r.regret for r in found.rankings if r.file == shipped.file]
    assert (len(regrets), np.mean(regrets)) == (12, pytest.approx(said.regret[1], abs=0.004))  # noise counts as none


def test_the_first_pick_and_the_best_of_five_are_held_against_the_best_timed(found: Evidence) -> None:
    (ranking,) = (r for r in found.rankings if r.file == "mine.csv")
    mine = found.rows.take(found.rows.file == "mine.csv")
    order = np.argsort(mine.predicted_s)
    assert ranking.configurations == 6
    assert (ranking.best, ranking.best_s) == (mine.tile[2], 2e-4)
    assert (ranking.picked, ranking.picked_s) == (mine.tile[order[0]], TIMES[order[0]])
    assert ranking.regret == pytest.approx(TIMES[order[0]] / 2e-4 - 1)
    assert ranking.regret_of_5 == pytest.approx(min(TIMES[i] for i in order[:5]) / 2e-4 - 1)


def test_a_shape_with_few_tiles_has_no_ranking(tmp_path: Path) -> None:
    study = opened(written(tmp_path, rows=ROWS[:4]))
    (name, rows), gpu = study.own[0], load_gpu("h200_sxm")
    assert judged([predicted(name, rows, gpu)]).rankings == ()


def test_known_are_shapes_and_launches_of_the_rows_fitted_on(found: Evidence) -> None:
    shipped = found.recorded[0]
    rows = shipped.rows.take(np.arange(3))
    again = replace(predicted("again.csv", rows, rows.gpu), file="again.csv")
    seen = judged([shipped, *found.recorded[1:], again]).rows
    assert seen.known_launch[seen.file == "again.csv"].all()
    assert not seen.known_shape[seen.file == "mine.csv"].any()
    assert seen.known_shape[seen.file == shipped.file].all()


def test_rows_without_a_prediction_are_counted_and_left_out(found: Evidence) -> None:
    mine = found.recorded[1]
    times = mine.prediction.time_s.copy()
    times[:2] = np.nan
    some = judged([replace(mine, prediction=replace(mine.prediction, time_s=times))])
    assert (some.refused, len(some.rows), some.rankings) == (2, 4, ())


def test_shipped_rows_are_filtered_by_family_and_dtype() -> None:
    gpus = [load_gpu("h200_sxm")]
    some = recorded_rows(gpus, lambda family, dtype: family in ("mma", "wmma") and dtype in ("int8", "bf16"))
    assert {r.kernel for r in some} == {"mma bf16", "mma int8", "wmma bf16"}


def test_a_gpu_without_rows_is_refused_in_a_sentence(tmp_path: Path) -> None:
    study = opened(written(tmp_path)).with_gpus(["a100_sxm_80gb"])
    with pytest.raises(GemmsimError, match="no rows of smem_tile are recorded on a100_sxm_80gb: expected a GPU"):
        study.run()


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("gpus: [h200_sxm]", "gpus: []", ("gpus is []", "at least one entry")),
        ("gpus: [h200_sxm]", "gpus: [h300]", ("gpus[0]", "'h300'", "h200_sxm")),
        ("gpus: [h200_sxm]\n", "", ("missing key gpus",)),
        ("gpus: [h200_sxm]", "gpus: [a100_sxm_80gb]", ("rows[0]: mine.csv is of h200_sxm", "a100_sxm_80gb")),
        ("[smem_tile]", "[naive]", ("rows[0]: mine.csv is of smem_tile fp32", "rows of naive", "families")),
        ("[smem_tile]", "[smem_tle]", ("families[0]", "did you mean smem_tile")),
        ("[smem_tile]", "[smem_tile, smem_tile]", ("families[1]", "twice")),
        ("[smem_tile]", "[smem_tile]\ndtypes: [bf16]", ("families[0]: smem_tile has no bf16 kernel", "fp32")),
        ("[smem_tile]", "[smem_tile]\ndtypes: [bf61]", ("dtypes[0]", "bf16")),
        ("[smem_tile]", "[smem_tile]\ndtypes: [fp32, float32]", ("dtypes[1]", "twice")),
        ("[mine.csv]", "[none.csv]", ("rows[0]", "none.csv", "No such file")),
        ("[mine.csv]", "[mine.csv, mine.csv]", ("rows[1]", "twice")),
        ("rows:", "row:", ("unknown key row", "did you mean rows")),
    ],
)
def test_a_wrong_study_names_file_key_found_and_expected(
    tmp_path: Path, old: str, new: str, names: tuple[str, ...]
) -> None:
    assert YAML.count(old) == 1
    path = written(tmp_path, YAML.replace(old, new))
    with pytest.raises(GemmsimError) as caught:
        open_study(path)
    sentence = str(caught.value)
    assert sentence.startswith(path)
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence
