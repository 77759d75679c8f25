"""Recorded rows as a space and an objective."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemmsim.errors import GemmsimError
from gemmsim.search.space import space_of
from gemmsim.tuning.recorded import read_rows

ROWS = Path(__file__).parents[2] / "studies" / "h200"
NAIVE, TILE, SIMT = (str(ROWS / f"{name}_fp32.csv.gz") for name in ("naive", "register_tile", "simt"))


def test_several_families_are_one_space_that_says_what_a_whole_one_would() -> None:
    rows = read_rows([NAIVE, TILE])
    replay = rows.replay(4096, 4096, 4096)
    whole = space_of(4096, 4096, 4096, gpu="h200_sxm", family=["naive", "register_tile"], dtype="fp32", l2=rows.l2)
    assert [part.family for part in replay.space.parts] == ["naive", "register_tile"]
    assert replay.space.identity == whole.identity
    assert rows.families == ("naive", "register_tile")
    place = whole.place_of(replay.space.candidate(30))
    assert place is not None
    assert replay.space.predicted_s[30] == pytest.approx(whole.predicted_s[place])
    assert replay(replay.space.candidate(30)) == replay.time_s[30]


def test_of_a_configuration_recorded_twice_the_fastest_row_stands(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    head = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,tm,tn,status,time_s"
    rows = ["h200_sxm,register_tile,fp32,warm,64,64,64,64,64,8,4,4,ok,3e-6",
            "h200_sxm,register_tile,fp32,warm,64,64,64,64,64,8,4,4,ok,2e-6",
            "h200_sxm,register_tile,fp32,warm,64,64,64,64,64,16,4,4,ok,5e-6",
            "h200_sxm,register_tile,fp32,warm,64,64,128,64,64,16,4,4,ok,7e-6",
            "h200_sxm,register_tile,fp32,warm,64,64,64,128,64,8,4,4,wrong,"]  # fmt: skip
    path.write_text("\n".join([head, *rows]) + "\n")
    found = read_rows([str(path)])
    assert np.array_equal(found.replay(64, 64, 64).time_s, [2e-6, 5e-6])
    again = tmp_path / "more.csv"
    again.write_text("\n".join([head, rows[2].replace("5e-6", "4e-6")]) + "\n")
    both = read_rows([str(path), str(again)])
    assert sorted(both.replay(64, 64, 64).time_s) == [2e-6, 4e-6]
    assert both.digest != found.digest


def test_a_shape_without_rows_is_refused_by_name() -> None:
    with pytest.raises(GemmsimError, match=r"naive_fp32.csv.gz: no row is of 1 x 2 x 3: expected one of the shapes "):
        read_rows([NAIVE]).replay(1, 2, 3)


def test_rows_of_several_conditions_are_not_mixed() -> None:
    with pytest.raises(GemmsimError, match=r"simt_fp32.csv.gz: rows of L2 condition cold_clean, and those before "):
        read_rows([NAIVE, SIMT])
