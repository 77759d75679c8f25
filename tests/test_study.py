"""Studies: strict YAML, the GEMMs of a model, picks that agree with `rank`, speed-ups with reasons, recorded rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemmsim.errors import GemmsimError
from gemmsim.paths import data_folder
from gemmsim.ranking import rank
from gemmsim.study import find_study, load_picks, open_study, study_names
from gemmsim.study.picks.outcome import Outcome
from gemmsim.study.recorded import DEFAULTS, recorded_rows
from gemmsim.study.search import SearchStudy

GOOD = """\
title: Two shapes
question: Which tile?
workload:
  shapes:
    - {name: wide, m: 512, n: 2048, k: 1024, count: 3}
    - {name: tall, m: 2048, n: 512, k: 1024}
gpus: [h100_sxm, h200_sxm]
families: [triton]
dtypes: [bf16]
vary:
  triton: {bm: [64, 128], bn: [64, 128], bk: [64], num_warps: [4], num_stages: [3, 4]}
measure: none
top: 3
"""
MODEL = """\
workload:
  config: model.json
  tokens: {all: 8}
"""
CONFIG = """\
{"model_type": "mistral", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 100,
 "num_attention_heads": 4, "num_key_value_heads": 2}
"""
SHAPES = GOOD[GOOD.index("workload") : GOOD.index("gpus")]


def written(folder: Path, text: str, config: str = CONFIG) -> str:
    (folder / "model.json").write_text(config)
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return load_picks(written(tmp_path_factory.mktemp("study"), GOOD)).run()


#: what is replaced in GOOD, by what -> what the sentence must name
WRONG = [
    ("title: Two shapes", "titel: Two shapes", ("titel", "did you mean title", "missing key title")),
    ("question: Which tile?\n", "", ("missing key question",)),
    ("question: Which tile?", "question: ''", ("question", "''", "some text")),
    ("question: Which tile?", "question: ' '", ("question", "' '", "some text")),
    ("question: Which tile?", "question: Q\n1: 2", ("key 1 is no text", "expected text")),
    ("title: Two shapes", "title: Two shapes\nvaried: m", ("unknown key varied", "without the key kind", "picks")),
    ("m: 512, n: 2048", "m: 0, n: 2048", ("workload.shapes[0].m is 0", "whole number from 1 to 2147483647")),
    ("m: 512, n: 2048", "m: 1e3, n: 2048", ("workload.shapes[0].m is '1e3'", "whole number")),
    ("m: 512, n: 2048", "m: 512.0, n: 2048", ("workload.shapes[0].m is 512.0", "whole number")),
    ("m: 512, n: 2048", "m: true, n: 2048", ("workload.shapes[0].m is True", "whole number")),
    ("k: 1024, count: 3", "k: 1024, cuont: 3", ("workload.shapes[0].cuont", "did you mean count")),
    ("name: tall", "name: wide", ("workload.shapes[1].name is 'wide'", "twice")),
    ("gpus: [h100_sxm, h200_sxm]", "gpus: [h100_sxm, h300]", ("gpus[1]", "'h300'", "h200_sxm")),
    ("gpus: [h100_sxm, h200_sxm]", "gpus: [h100]", ("gpus[0]", "'h100'", "h100_pcie")),
    ("gpus: [h100_sxm, h200_sxm]", "gpus: [h200_sxm, NVIDIA H200]", ("gpus[1]", "h200_sxm", "twice")),
    ("gpus: [h100_sxm, h200_sxm]", "gpus: []", ("gpus is []", "at least one entry")),
    ("gpus: [h100_sxm, h200_sxm]", "gpus: h200_sxm", ("gpus is 'h200_sxm'", "a list")),
    ("families: [triton]", "families: [tritn]", ("families[0]", "'tritn'", "did you mean triton")),
    ("families: [triton]", "families: [triton, register_tile]", ("families[1]", "register_tile", "fp32")),
    ("dtypes: [bf16]", "dtypes: [bf61]", ("dtypes[0]", "'bf61'", "bf16")),
    ("dtypes: [bf16]", "dtypes: [bf16, bfloat16]", ("dtypes[1]", "bf16", "twice")),
    ("dtypes: [bf16]", "dtypes: [fp64]", ("fp64", "triton", "bf16")),
    ("dtypes: [bf16]", "dtypes: [bf16, fp32]", ("dtypes[1]", "fp32")),
    ("bm: [64, 128]", "bm: []", ("vary.triton.bm is []", "not empty")),
    ("bm: [64, 128]", "bm: [0]", ("vary.triton.bm is [0]", "whole numbers from 1")),
    (
        "bm: [64, 128]",
        f"bm: {list(range(1, 1001))}, group_m: {list(range(1, 501))}",
        ("vary.triton has 2000000 combinations", "at most 1000000"),
    ),
    ("bm: [64, 128]", "bm: [64, 128, 64]", ("vary.triton.bm[2] is 64", "each once")),
    ("bm: [64, 128]", "bm: [64, big]", ("vary.triton.bm", "'big'", "whole numbers")),
    ("bm: [64, 128]", "blocks: [64, 128]", ("vary.triton", "'blocks'", "bm")),
    ("triton: {bm", "register_tile: {bm", ("vary", "'register_tile'", "triton")),
    ("measure: none", "measure: maybe", ("measure is 'maybe'", "'none', 'recorded' or 'run'")),
    ("top: 3", "top: 0", ("top is 0", "1 to 1000")),
    ("top: 3", "top: 3\nl2: hot", ("l2 is 'hot'", "cold_clean")),
    ("top: 3", "top: 3\ntop: 4", ("top", "twice")),
    ("top: 3", "top: 3\ntokens: {all: 8}", ("unknown key tokens",)),
    ("  shapes:", "  tokens: {all: 8}\n  shapes:", ("workload.tokens", "workload.config")),
    ("  shapes:", "  config: model.json\n  shapes:", ("workload has both of config and shapes",)),
    (SHAPES, "workload: {}\n", ("workload has neither of config and shapes",)),
    (SHAPES, MODEL.replace("  tokens: {all: 8}\n", ""), ("missing key workload.tokens",)),
    (SHAPES, MODEL.replace("tokens: {all: 8}", "tokens: {}"), ("workload.tokens is {}", "at least one entry")),
    (SHAPES, MODEL.replace("tokens", "token"), ("workload.token", "did you mean tokens")),
    (SHAPES, MODEL.replace("all: 8", "all: 0"), ("workload.tokens.all is 0", "whole number from 1 to 2147483647")),
    (SHAPES, MODEL.replace("all: 8", "1: 8"), ("key 1 is no text", "expected text, such as '1' in quotes")),
    (SHAPES, MODEL + "  tp: 3\n", ("workload.tp: tp = 3", "divisor", "4 attention heads")),
    (SHAPES, MODEL.replace("model.json", "none.json"), ("workload.config", "none.json", "No such file")),
    ("title: Two shapes", "kind: pick\ntitle: Two shapes", ("kind is 'pick'", "picks, search, raster")),
    (
        "title: Two shapes",
        "kind: search\nrows: x.csv\ntitle: Two shapes",
        ("unknown key gpus", "kind, title, question"),
    ),
    (GOOD, "kind: search\ntitle: T\nquestion: Q\nrow: x.csv\n", ("row: did you mean rows", "missing key rows")),
    (GOOD, "kind: raster\ntitle: T\nquestion: Q\nrow: x.csv\n", ("row: did you mean rows", "missing key counters")),
    (GOOD, "[1, 2]\n", ("expected a mapping", "list")),
]


@pytest.mark.parametrize(("old", "new", "names"), WRONG, ids=[f"{i}: {w[1][:30]}" for i, w in enumerate(WRONG)])
def test_a_wrong_study_names_file_key_found_and_expected(
    tmp_path: Path, old: str, new: str, names: tuple[str, ...]
) -> None:
    assert GOOD.count(old) == 1
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(GemmsimError) as caught:
        load_picks(path)
    sentence = str(caught.value)
    assert sentence.startswith(path)
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence


def test_an_unknown_study_names_those_there_are() -> None:
    with pytest.raises(GemmsimError, match="unknown study 'llama3': did you mean llama2_7b"):
        find_study("llama3")


@pytest.mark.parametrize("name", study_names())
def test_every_shipped_study_loads(name: str) -> None:
    study = open_study(name)
    assert study.name == name
    assert study.steps() > 0


CURVES = """\
gpu,family,dtype,sampler,searches,trial,mean_regret,median_regret,done_share
h200_sxm,simt,fp32,random,4,2,0.1,0.05,0.5
h200_sxm,simt,fp32,random,4,1,0.2,0.1,0.25
h200_sxm,simt,fp32,top k,4,1,0.02,0.01,0.75
h200_sxm,simt,fp32,top k,4,2,0,0,1
"""


def test_curves_are_read_a_trial_after_another_and_say_how_many_trials_a_search_needs(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(CURVES)
    study = open_study(written(tmp_path, "kind: search\ntitle: T\nquestion: Q\nrows: c.csv\n"))
    assert isinstance(study, SearchStudy)
    random, top = study.curves
    assert (random.rows, random.sampler, random.searches) == ("simt fp32", "random", 4)
    assert random.mean.tolist() == [0.2, 0.1]
    assert [random.trials_to(share) for share in (0.25, 0.5, 0.9)] == [1, 2, None]
    assert [top.trials_to(share) for share in (0.5, 0.9)] == [1, 2]


def test_a_study_of_searches_needs_curves_and_is_none_of_picks(tmp_path: Path) -> None:
    path = written(tmp_path, "kind: search\ntitle: T\nquestion: Q\nrows: c.csv\n")
    with pytest.raises(GemmsimError, match=r"c\.csv"):
        open_study(path)
    (tmp_path / "c.csv").write_text(CURVES.splitlines()[0] + "\n")
    with pytest.raises(GemmsimError, match=r"c\.csv: expected rows below the header, found none"):
        open_study(path)
    (tmp_path / "c.csv").write_text(CURVES)
    with pytest.raises(GemmsimError, match="kind is search: expected a study of picks"):
        load_picks(path)


def test_llama2_7b_is_about_28_tflop_at_2048_tokens() -> None:
    study = load_picks("llama2_7b")
    assert study.flops("prefill") == pytest.approx(2 * 6.74e9 * 2048, rel=0.025)
    assert study.flops("decode") == pytest.approx(study.flops("prefill") * 16 / 2048)
    sizes = {w.name: (w.m, w.n, w.k, w.count) for w in study.works if w.variant == "prefill"}
    assert sizes == {
        "qkv": (2048, 12288, 4096, 32), "o": (2048, 4096, 4096, 32), "gate_up": (2048, 22016, 4096, 32),
        "down": (2048, 4096, 11008, 32), "lm_head": (2048, 32000, 4096, 1),
    }  # fmt: skip


def test_a_model_is_read_from_the_file_beside_the_study(tmp_path: Path) -> None:
    study = load_picks(written(tmp_path, GOOD.replace(SHAPES, MODEL + "  tp: 2\n")))
    assert study.subject == "model"
    assert {w.name: (w.m, w.n, w.k, w.count) for w in study.works} == {
        "qkv": (8, (64 + 2 * 2 * 16) // 2, 64, 2), "o": (8, 64, 32, 2), "gate_up": (8, 128, 64, 2),
        "down": (8, 64, 64, 2), "lm_head": (8, 50, 64, 1),
    }  # fmt: skip


def test_experts_are_launches_of_their_own(tmp_path: Path) -> None:
    config = CONFIG.replace("mistral", "mixtral").replace("}", ', "num_local_experts": 4, "num_experts_per_tok": 2}')
    study = load_picks(written(tmp_path, GOOD.replace(SHAPES, MODEL), config))
    assert [(w.m, w.n, w.k, w.count) for w in study.works if w.name == "experts_down"] == [(4, 64, 128, 2 * 4)]


def test_a_model_whose_gemm_is_too_large_names_it(tmp_path: Path) -> None:
    config = CONFIG.replace('"intermediate_size": 128', '"intermediate_size": 2147483647')
    with pytest.raises(GemmsimError, match="GEMM gate_up: N = 4294967294"):
        load_picks(written(tmp_path, GOOD.replace(SHAPES, MODEL), config))


def test_a_switch_may_be_off(tmp_path: Path) -> None:
    vary = GOOD[GOOD.index("  triton:") : GOOD.index("measure")]
    text = GOOD.replace(vary, "  simt: {async_copy: [0], stages: [1, 2], regs: [0]}\n")
    study = load_picks(
        written(tmp_path, text.replace("families: [triton]", "families: [simt]").replace("bf16", "fp32"))
    )
    assert study.spaces["simt"]["async_copy"].tolist() == [0, 0]
    assert study.spaces["simt"]["regs"].tolist() == [0, 0]


def test_vary_is_the_grid_and_the_rest_stays_at_the_defaults(outcome: Outcome) -> None:
    space = outcome.study.spaces["triton"]
    assert len(space) == 8
    assert set(space["group_m"].tolist()) == {8}


def test_the_pick_over_the_whole_space_is_what_rank_says() -> None:
    study = load_picks("llama2_7b").with_gpus(["h100_sxm"])
    work = study.works[0]
    from gemmsim.study.picks.outcome import shortlist

    mine = shortlist(study, study.gpus[0], work, "bf16")
    theirs = rank(work.m, work.n, work.k, gpu="h100_sxm", dtype="bf16", family="triton", top=study.top)
    assert [(c.config, c.time_s) for c in mine] == [(e.key, e.time_s) for e in theirs.entries]
    assert mine[0].searched == theirs.feasible


def test_candidates_are_sorted_and_the_pick_is_the_fastest(outcome: Outcome) -> None:
    assert len(outcome.picks) == 4
    for pick in outcome.picks:
        times = [c.time_s for c in outcome.candidates if (c.gpu, c.gemm) == (pick.gpu, pick.gemm)]
        assert times == sorted(times)
        assert len(times) == 3
        assert pick.time_s == times[0]


def test_progress_reaches_its_end(outcome: Outcome) -> None:
    told: list[int] = []
    outcome.study.run(told.append)
    assert sum(told) == outcome.study.steps()


def test_a_speedup_compares_like_with_like_and_names_what_differs() -> None:
    study = load_picks("llama2_7b").with_gpus(["h100_sxm", "h200_sxm"])
    decode = next(s for s in study.run().speedups if s.variant == "decode")
    assert decode.basis == DEFAULTS  # the H100 has no fitted rows
    assert decode.ratio == pytest.approx(decode.old_s / decode.new_s)
    assert 1.2 < decode.ratio <= 4.8e12 / 3.352e12 + 0.01
    assert decode.reason.startswith("memory bandwidth")
    assert "SMs" not in {r.group for r in decode.reasons}  # both have 132
    assert np.prod([r.factor for r in decode.reasons]) == pytest.approx(decode.ratio)


def test_a_recorded_file_of_several_kernels_is_left_out() -> None:
    """ladder_fp32 compares families; it is no file of one of them, and stops no study."""
    assert (data_folder("studies") / "h200" / "ladder_fp32.csv.gz").is_file()
    assert "ladder_fp32.csv.gz" not in {r.file for r in recorded_rows(load_picks("llama2_7b").gpus)}


def test_a_recorded_file_of_unstable_rows_is_left_out() -> None:
    assert (data_folder("studies") / "h200" / "triton_raster.csv.gz").is_file()
    assert "triton_raster.csv.gz" not in {r.file for r in recorded_rows(load_picks("llama2_7b").gpus)}


def test_recorded_rows_are_predicted_under_their_own_condition() -> None:
    found = recorded_rows(load_picks("llama2_7b").gpus)
    files = {r.file: r for r in found}
    assert set(files) >= {"triton_bf16.csv.gz", "triton_bf16_uniform.csv.gz", "register_tile_fp32.csv.gz"}
    clean = {r.file for r in found if r.rows.l2 == "cold_clean"}
    assert clean >= {"simt_fp32.csv.gz", "triton_pick.csv.gz"}
    assert clean < set(files)
    for r in found:
        assert r.rows.l2 == r.prediction.l2
        assert r.prediction.launch.from_facts.all()
        assert np.isfinite(r.prediction.time_s).all()
        assert np.median(np.abs(r.prediction.time_s / r.rows.time_s - 1)) < 0.12


def test_the_disturbed_row_counts_with_its_minimum() -> None:
    r = next(r for r in recorded_rows(load_picks("llama2_7b").gpus) if r.file == "triton_bf16.csv.gz")
    p, c = r.rows.problem, r.rows.config
    row = (
        (p.m == 256)
        & (p.n == 256)
        & (p.k == 256)
        & (c["bm"] == 64)
        & (c["bn"] == 128)
        & (c["bk"] == 128)
        & (c["num_stages"] == 4)
    )
    assert r.rows.time_s[row & (c["num_warps"] == 4) & (c["group_m"] == 8)].tolist() == [5.95200015231967e-06]


def test_every_recorded_file_says_what_it_holds() -> None:
    from gemmsim.rows import read_csv

    files = sorted(data_folder("studies").glob("h200/*.csv.gz"))
    assert len(files) >= 11
    for path in files:
        table = read_csv(str(path))
        arch = {"sm_80": "a100_sxm_80gb"}.get(path.name.partition(".")[0][-5:], "h200_sxm")
        assert set(table.text("gpu")) == {arch}, path.name
        assert "dtype" in table, path.name
