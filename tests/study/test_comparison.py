"""A study that compares GPUs: what `compare` says of the same GEMMs, each variant and type; a wrong file says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies_under_test import opened

from gemmsim import GemmsimError
from gemmsim.comparison import compare
from gemmsim.problem import form_of
from gemmsim.ranking import rank
from gemmsim.study.comparison import SHORTLIST, ComparisonStudy
from gemmsim.workload import Product

YAML = """\
kind: comparison
title: T
question: Q
workload:
  shapes:
    - {name: wide, m: 512, n: 2048, k: 1024, count: 3}
gpus: [a100_sxm_80gb, h200_sxm]
dtypes: [fp16]
families: [triton]
vary:
  triton: {bm: [64, 128], bn: [64, 128], num_stages: [3, 4]}
what_if:
  h200_sxm: {dram_bytes_per_s: 7.2e+12}
"""


def study(folder: Path, text: str = YAML) -> ComparisonStudy:
    return opened(ComparisonStudy, folder, text)


def test_a_pass_is_what_compare_says_of_the_grid(tmp_path: Path) -> None:
    told: list[int] = []
    asked = study(tmp_path, YAML + "sensitivity: true\n")
    (one,) = asked.run(told.append)
    assert sum(told) == asked.steps()
    assert (one.variant, one.dtype, one.found.baseline) == ("all", "fp16", "a100_sxm_80gb")
    assert [card.label for card in one.found.cards] == ["a100_sxm_80gb", "h200_sxm", "h200_sxm*"]
    product = Product("all", "wide", 512, 2048, 1024, 3, form_of("fp16"))
    said = compare(
        [product], gpus=["a100_sxm_80gb", "h200_sxm"], family="all", spaces=asked.spaces, sensitivity=True,
        what_if={"h200_sxm": {"dram_bytes_per_s": 7.2e12}}, shortlist=SHORTLIST,
    )  # fmt: skip
    assert [(c.label, c.time_s) for c in one.found.cards] == [(c.label, c.time_s) for c in said.cards]
    assert one.found.speedups == said.speedups
    assert one.found.elasticities == said.elasticities
    assert not one.found.calibrated


def test_a_search_of_given_spaces_is_of_them_alone(tmp_path: Path) -> None:
    spaces = study(tmp_path).spaces
    found = rank(512, 2048, 1024, gpu="a100_sxm_80gb", dtype="fp16", spaces=spaces, top=None)
    assert (found.families, found.configurations) == (("triton",), 8)
    assert {entry.config["bm"] for entry in found.entries} <= {64, 128}
    with pytest.raises(GemmsimError, match="no family has a fp64 kernel"):
        rank(512, 2048, 1024, gpu="a100_sxm_80gb", dtype="fp64", spaces=spaces)


def test_other_gpus_have_the_first_as_baseline_and_nothing_changed(tmp_path: Path) -> None:
    found = study(tmp_path).with_gpus(["h200_sxm", "a100_sxm_80gb"])
    (one,) = found.run()
    assert (one.found.baseline, list(one.found.changes)) == ("h200_sxm", [])


def test_one_gpu_is_compared_with_nothing_but_what_if_or_its_own_figures(tmp_path: Path) -> None:
    one = YAML.replace("[a100_sxm_80gb, h200_sxm]", "[h200_sxm]")
    assert len(study(tmp_path, one).gpus) == 1
    bare = one[: one.index("what_if")]
    assert len(study(tmp_path, bare + "sensitivity: true\n").gpus) == 1
    with pytest.raises(GemmsimError, match="gpus is h200_sxm alone: expected two or more"):
        study(tmp_path, bare)
    with pytest.raises(GemmsimError, match="--gpus is h200_sxm alone"):
        study(tmp_path).with_gpus(["h200_sxm"])


#: what is replaced in YAML, by what, what the sentence must name
WRONG = [
    ("gpus: [a100_sxm_80gb, h200_sxm]", "gpus: [a100_sxm_80gb, h300]", ("gpus[1]", "'h300'")),
    ("gpus: [a100_sxm_80gb, h200_sxm]", "gpus: [v100_sxm2_32gb, h200_sxm]\nbaseline: a100_sxm_80gb",
     ("baseline is 'a100_sxm_80gb'", "v100_sxm2_32gb, h200_sxm")),
    ("dtypes: [fp16]", "dtypes: [fp17]", ("dtypes[0]", "'fp17'")),
    ("a100_sxm_80gb, h200_sxm]\ndtypes: [fp16]", "v100_sxm2_32gb, h200_sxm]\ndtypes: [bf16]",
     ("gpus[0]", "no bf16 path")),
    ("families: [triton]", "families: [tritn]", ("families[0]", "did you mean triton")),
    ("bm: [64, 128]", "bm: [0]", ("vary.triton.bm is [0]",)),
    ("h200_sxm: {dram", "h100_sxm: {dram", ("what_if.h100_sxm", "GPUs of gpus")),
    ("{dram_bytes_per_s: 7.2e+12}", "{}", ("what_if.h200_sxm is {}", "figures")),
    ("{dram_bytes_per_s: 7.2e+12}", "{dram_bytes: fast}", ("what_if.h200_sxm.dram_bytes is 'fast'", "number")),
    ("{dram_bytes_per_s: 7.2e+12}", "{dram_rate: 7.2e+12}", ("what_if.h200_sxm", "'dram_rate'", "did you mean")),
    ("{dram_bytes_per_s: 7.2e+12}", "{dram_bytes_per_s: 4800}", ("what_if.h200_sxm", "dram_bytes_per_s is 4800")),
    ("title: T", "title: T\nsensitivity: maybe", ("sensitivity is 'maybe'", "true or false")),
    ("title: T", "title: T\nsensitive: true", ("unknown key sensitive", "did you mean sensitivity")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "names"), WRONG, ids=[f"{i}: {w[1][:30]}" for i, w in enumerate(WRONG)])
def test_a_wrong_comparison_names_file_key_and_what_was_expected(
    tmp_path: Path, old: str, new: str, names: tuple[str, ...]
) -> None:
    assert YAML.count(old) == 1
    with pytest.raises(GemmsimError) as caught:
        study(tmp_path, YAML.replace(old, new))
    sentence = str(caught.value)
    assert sentence.startswith(str(tmp_path / "mine.yaml"))
    assert "\n" not in sentence
    assert [name for name in names if name not in sentence] == [], sentence
