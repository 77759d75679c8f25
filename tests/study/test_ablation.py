"""A study of effects: errors without an effect are validate's own, whole and refitted; idle effects are not fitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies_under_test import opened

from gemmsim import GemmsimError
from gemmsim.measured import read_measured
from gemmsim.model.calibration import find
from gemmsim.model.demand import TERMS
from gemmsim.paths import data_folder
from gemmsim.study.ablation import Ablated, AblationStudy, ablated
from gemmsim.validate import held_out, score

ROWS = str(data_folder("studies") / "h200" / "smem_tile_fp32.csv.gz")
YAML = f"kind: ablation\ntitle: T\nquestion: Q\neffects: [math, waves, spill]\nrows:\n  - files: [{ROWS}]\n"
HEAD = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,pad,time_s"
FEW = [
    f"h200_sxm,smem_tile,fp32,cold_dirty,{m},512,512,{b},{b},{b},1,1e-4" for m in (64, 128, 256, 512) for b in (8, 16)
]
REFIT = f"    refit: true\n    fit_with: [{ROWS}]\n    splits: 1\n"


@pytest.fixture(scope="module")
def refitted(tmp_path_factory: pytest.TempPathFactory) -> Ablated:
    told: list[int] = []
    study = opened(AblationStudy, tmp_path_factory.mktemp("study"), YAML + REFIT)
    (part,) = study.parts
    found = ablated(part, study.effects, told.append)
    assert sum(told) == study.steps() == 4
    return found


def test_with_shipped_coefficients_errors_are_those_of_validate_without_the_effect(refitted: Ablated) -> None:
    rows = read_measured(ROWS)
    fit = find(rows.gpu, "smem_tile", "auto", "fp32")
    assert refitted.whole.mape == score(rows, fit)["all"].mape
    for effect in ("math", "waves"):
        said = score(rows, fit, without={effect})["all"]
        here = refitted.without[effect]
        assert (here.mape, here.spearman, here.regret) == (said.mape, said.spearman, said.regret)


def test_refitted_errors_are_those_of_validate_held_out(refitted: Ablated) -> None:
    rows = read_measured(ROWS)
    said = held_out(rows, seeds=1, fit_with=rows, without={"math"})["all"]
    assert refitted.refit_without["math"].mape == said.mape
    assert refitted.refit_whole is not None
    assert refitted.refit_whole.mape == held_out(rows, seeds=1, fit_with=rows)["all"].mape


def test_an_effect_that_moves_no_row_is_not_fitted_again(refitted: Ablated) -> None:
    assert refitted.idle == ("spill",)
    assert refitted.refit_without["spill"] is refitted.refit_whole
    assert refitted.without["spill"].mape == refitted.whole.mape


def test_without_refit_nothing_is_fitted_and_all_effects_are_asked_for(tmp_path: Path) -> None:
    study = opened(AblationStudy, tmp_path, YAML.replace("effects: [math, waves, spill]\n", ""))
    told: list[int] = []
    (found,) = study.run(told.append)
    assert study.effects == TERMS
    assert sum(told) == study.steps() == len(TERMS) + 1
    assert (found.refit_whole, found.refit_without) == (None, {})
    assert set(found.without) == set(TERMS)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("effects: [math", "effects: [meth", ("effects", "'meth'", "did you mean math")),
        ("effects: [math", "effects: [waves, math", ("effects[2]", "twice")),
        ("effects: [math, waves, spill]", "effects: []", ("effects is []", "at least one entry")),
        ("files:", "file:", ("rows[0].file", "did you mean files")),
        (f"files: [{ROWS}]", f"files: [{ROWS}, {ROWS}]", ("rows[0].files[1]", "twice")),
        (f"[{ROWS}]\n", f"[{ROWS}]\n  - files: [{ROWS}]\n", ("rows[1]", "twice")),
        (ROWS, "none.csv", ("rows[0].files[0]", "none.csv", "No such file")),
        (f"[{ROWS}]\n", f"[{ROWS}]\n    splits: 2\n", ("rows[0].splits", "refit")),
        (f"[{ROWS}]\n", f"[{ROWS}]\n    refit: true\n    splits: 0\n", ("rows[0].splits is 0", "from 1 to 100")),
        (f"[{ROWS}]\n", f"[{ROWS}]\n    refit: yes please\n", ("rows[0].refit is 'yes please'", "true or false")),
        (ROWS, "few.csv]\n    refit: true\n    #", ("rows[0].files: 8 rows leave 2 to fit", "fit_with")),
        (f"rows:\n  - files: [{ROWS}]\n", "", ("missing key rows",)),
    ],
)
def test_a_wrong_study_names_file_key_found_and_expected(
    tmp_path: Path, old: str, new: str, names: tuple[str, ...]
) -> None:
    assert YAML.count(old) == 1
    (tmp_path / "few.csv").write_text("\n".join((HEAD, *FEW)) + "\n")
    with pytest.raises(GemmsimError) as caught:
        opened(AblationStudy, tmp_path, YAML.replace(old, new))
    sentence = str(caught.value)
    assert sentence.startswith(str(tmp_path / "mine.yaml"))
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence


def test_it_is_of_recorded_rows_and_takes_no_gpus(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match="--gpus h200_sxm: study mine is of recorded rows"):
        opened(AblationStudy, tmp_path, YAML).with_gpus(["h200_sxm"])
