"""Wavefronts, bank conflicts and sectors counted by hand, against what is counted from lane addresses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from gemmsim.families.accesses import Access, access, idle
from gemmsim.families.wavefronts import IDLE
from gemmsim.model import shared_memory
from gemmsim.model.shared_memory import copied, counted, sectors

LANE = np.arange(32)


def shared(address: npt.ArrayLike, width: int = 4) -> tuple[float, float]:
    """Wavefronts and conflicts of one request to shared memory, addresses in bytes."""
    found = counted(access("one", 1.0, width, shared=np.asarray(address, np.int64)[None, None, :]))
    return float(found.wavefronts[0]), float(found.conflicts[0])


def copy(target: npt.ArrayLike, source: npt.ArrayLike, width: int) -> tuple[float, float]:
    """Wavefronts and conflicts of one cp.async."""
    found, conflicts = copied(np.asarray(target, np.int64)[None], np.asarray(source, np.int64)[None], width)
    return float(found[0]), float(conflicts[0])


def test_neighbours_and_broadcasts_meet_no_conflict() -> None:
    assert shared(4 * LANE) == (1, 0)
    assert shared(0 * LANE) == (1, 0)
    assert shared(4 * (LANE // 8)) == (1, 0)


@pytest.mark.parametrize(("stride", "ways"), [(2, 2), (4, 4), (32, 32), (33, 1)])
def test_a_stride_that_shares_a_factor_with_the_banks(stride: int, ways: int) -> None:
    assert shared(4 * stride * LANE) == (ways, ways - 1)


def test_wide_loads_go_in_parts_that_are_no_conflicts() -> None:
    assert shared(8 * LANE, 8) == (2, 0)
    assert shared(16 * LANE, 16) == (4, 0)
    assert shared(16 * (LANE // 2), 16) == (2, 0)  # lanes i and i^1 agree: quarters merge two and two
    assert shared(32 * LANE, 16) == (8, 4)  # every other 16 B: two words a bank in each quarter


def test_a_column_of_a_padded_tile_and_of_a_swizzled_one() -> None:
    """32 x 32 words: a column lies in one bank; with one word more a row, or its columns exchanged by row, in all."""
    assert shared(4 * 32 * LANE) == (32, 31)
    assert shared(4 * 33 * LANE) == (1, 0)
    assert shared(4 * (32 * LANE + (5 ^ LANE))) == (1, 0)


def test_lanes_that_take_no_part() -> None:
    """A request of none is issued all the same; half a warp has its own conflicts alone."""
    none = counted(idle("none", np.ones(3)))
    assert none.wavefronts.tolist() == [1, 1, 1]
    assert none.conflicts.tolist() == [0, 0, 0]
    assert shared(np.where(LANE < 16, 4 * 32 * (LANE % 2), IDLE)) == (2, 1)
    assert shared(np.where(LANE < 8, 16 * LANE, IDLE), 16) == (1, 0)
    assert shared(np.where(LANE < 16, 8 * LANE, IDLE), 8) == (1, 0)


def test_copies_of_16_bytes_pass_l1_by() -> None:
    assert copy(16 * LANE, 16 * LANE, 16) == (2, 2)
    assert copy(np.where(LANE < 16, 16 * LANE, IDLE), 16 * LANE, 16) == (1, 1)
    assert copy(np.full(32, IDLE), np.full(32, IDLE), 16) == (1, 0)


def test_copies_of_words_take_a_pass_a_line_and_a_bank_conflict() -> None:
    """A tile of A, pitch 68 words: 8 columns of 4 rows have banks of their own; 16 of 2 rows share them by two."""
    for across, lines, ways in ((8, 4, 1), (16, 2, 2)):
        k, row = LANE % across, LANE // across
        found = copy(4 * (68 * k + row), 4 * (4096 * row + k), 4)
        assert found == (lines + ways - 1, lines + ways - 2)


def test_rows_that_begin_inside_a_sector_come_sector_by_sector() -> None:
    assert copy(4 * LANE, 4 * LANE, 4) == (1, 0)
    assert copy(4 * LANE, 4 * (LANE + 1), 4) == (6, 5)  # five sectors, in two lines
    assert copy(4 * LANE, 128 + 4 * LANE, 4) == (1, 0)


def test_rows_past_the_edge_are_one_row() -> None:
    k, row = LANE % 16, LANE // 16
    assert copy(4 * (68 * k + row), 4 * k, 4) == (2, 1)


@pytest.mark.parametrize(
    ("address", "width", "expected"),
    [(4 * LANE, 4, 4), (16 * LANE, 16, 16), (0 * LANE, 4, 1), (128 * LANE, 4, 32), (4 * LANE + 4, 4, 5),
     (8 * LANE, 4, 8), (np.where(LANE < 8, 4 * LANE, IDLE), 4, 1)],
)  # fmt: skip
def test_sectors_of_a_global_request(address: npt.NDArray[np.int64], width: int, expected: int) -> None:
    assert sectors(address[None], width).tolist() == [expected]


def test_a_launch_is_its_requests_times_their_numbers() -> None:
    """Two kinds: 3 a k-step at two wavefronts, one of them a conflict; 5 a walk at one."""
    two = access("two", 3.0, 4, shared=(8 * LANE)[None, None, :])
    one = access("one", 0.0, 4, shared=(4 * LANE)[None, None, :], ends=5.0)
    load = access("load", 7.0, 4, memory=(4 * LANE)[None, None, :])
    accesses: list[Access] = [two, one, load]
    steps, walks = np.asarray([100.0]), np.asarray([10.0])
    assert shared_memory.wavefronts(accesses, steps, walks).tolist() == [3 * 2 * 100 + 5 * 10]
    assert shared_memory.conflicts(accesses, steps, walks).tolist() == [3 * 100]


def test_widths_may_differ_from_row_to_row() -> None:
    both = np.stack([4 * LANE, 16 * LANE])[:, None, :]
    assert counted(access("both", 1.0, [4, 16], shared=both)).wavefronts.tolist() == [1, 4]
