"""A study of a ladder: rows of several kernels, each predicted with its own facts, stages in the file's order."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies_under_test import opened

from gemmsim import GemmsimError, predict
from gemmsim.study.ladder import LadderStudy

HEAD = "gpu,family,dtype,m,n,k,bm,bn,bk,coalesced,tm,tn,l2,status,time_s,cublas_time_s,unstable,regs_per_thread,stage"
NAIVE = "h200_sxm,naive,fp32,1024,1024,1024,32,32,8,1,,,cold_clean,ok,4e-4,6e-5,,32,first"
TILE = "h200_sxm,register_tile,fp32,1024,1024,1024,128,128,16,,8,8,cold_clean,ok,2.5e-4,,clock,128,second"
LARGE = "h200_sxm,register_tile,fp32,2048,1024,1024,128,128,16,,8,8,cold_clean,ok,3e-4,1e-4,,128,second"
FAILED = "h200_sxm,naive,fp32,64,64,64,32,32,8,1,,,cold_clean,launch,,,,,third"
YAML = "kind: ladder\ntitle: T\nquestion: Q\nrows: [rows.csv]\n"


def study(folder: Path, rows: tuple[str, ...] = (TILE, NAIVE, LARGE, FAILED), yaml: str = YAML) -> LadderStudy:
    texts = ["\n".join((HEAD, *some)) + "\n" for some in (rows, rows[:1])]
    return opened(LadderStudy, folder, yaml, rows=texts[0], other=texts[1])


def test_rows_of_several_kernels_are_one_ladder_in_the_stages_order(tmp_path: Path) -> None:
    assert study(tmp_path).stages == ("second", "first")
    found = study(tmp_path, yaml=YAML + "stages: [first, second]\nquoted: {first: 0.02}\n")
    assert [(t.shape, t.stage) for t in found.timed] == [
        ("1024 x 1024 x 1024", "first"), ("1024 x 1024 x 1024", "second"), ("2048 x 1024 x 1024", "second"),
    ]  # fmt: skip
    first, second, _ = found.timed
    assert (first.family, first.time_s, first.library_s, first.flops) == ("naive", 4e-4, 6e-5, 2 * 1024**3)
    assert second.library_s != second.library_s
    assert second.unstable == "clock"
    assert found.quoted == {"first": 0.02}


def test_rungs_are_predicted_with_their_facts_and_their_parts_are_within_the_time(tmp_path: Path) -> None:
    told: list[int] = []
    found = study(tmp_path, yaml=YAML + "stages: [first, second]\n")
    ladder = found.run(told.append)
    assert sum(told) == found.steps()
    first, second, _ = ladder.rungs
    p = predict(1024, 1024, 1024, gpu="h200_sxm", dtype="fp32", family="register_tile", terms=True,
                config={"bm": 128, "bn": 128, "bk": 16, "tm": 8, "tn": 8}, facts={"regs_per_thread": 128})  # fmt: skip
    assert (second.predicted_s, second.bound_by) == (p.time_s[0], p.bound_by[0])
    assert (second.regs_per_thread, second.threads, second.blocks_per_sm) == (128, 256, p.blocks_per_sm[0])
    assert 0 < sum(second.parts.values()) <= second.predicted_s
    assert ladder.shapes == ["1024 x 1024 x 1024", "2048 x 1024 x 1024"]
    assert list(ladder.steps()) == [(first, second)]


#: rows, what is added to the YAML, what the sentence must name
WRONG = [
    ((TILE, TILE), "", ("stage 'second' is there twice at 1024 x 1024 x 1024",)),
    ((TILE, NAIVE.replace("cold_clean", "warm")), "", ("L2 condition cold_clean and warm", "expected one")),
    ((FAILED,), "", ("rows[0]", "rows.csv", "no row has the status ok")),
    ((NAIVE.replace("6e-5", "fast"),), "", ("row 1 (line 2), column cublas_time_s is 'fast'",)),
    ((TILE, NAIVE.replace("1024,32", "1024,x")), "", ("row 2 (line 3), column bm is 'x'",)),
    ((TILE,), "stages: [secnd]\n", ("stages", "'secnd'", "did you mean second")),
    ((TILE,), "stages: [second, second]\n", ("stages[1] is 'second'", "twice")),
    ((TILE, NAIVE), "stages: [second]\n", ("stages has no 'first'", "every stage")),
    ((TILE,), "quoted: {first: 0.1}\n", ("quoted", "'first'")),
    ((TILE,), "quoted: {second: 25}\n", ("quoted.second is 25", "such as 0.25")),
    ((TILE,), "row: [x]\n", ("unknown key row", "did you mean rows")),
]


@pytest.mark.parametrize(("rows", "more", "names"), WRONG, ids=[f"{i}: {w[2][0][:30]}" for i, w in enumerate(WRONG)])
def test_a_wrong_ladder_names_what_is_wrong(
    tmp_path: Path, rows: tuple[str, ...], more: str, names: tuple[str, ...]
) -> None:
    with pytest.raises(GemmsimError) as caught:
        study(tmp_path, rows, YAML + more)
    sentence = str(caught.value)
    assert sentence.startswith(str(tmp_path / "mine.yaml"))
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match=r"rows\[1\] is 'rows.csv': expected each once"):
        study(tmp_path, yaml=YAML.replace("[rows.csv]", "[rows.csv, rows.csv]"))
