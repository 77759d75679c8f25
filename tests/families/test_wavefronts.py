"""Bank conflicts counted by hand, against `wavefronts`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from gemmsim.families.register_tile import _fragment
from gemmsim.families.wavefronts import distinct_runs, wavefronts

LANE = np.arange(32)


def passes(word: npt.ArrayLike, width: int = 1) -> float:
    return float(wavefronts(np.asarray(word, np.int64)[None, :], width)[0])


@pytest.mark.parametrize(
    ("stride", "expected"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (17, 1), (32, 32), (33, 1)]
)
def test_strides_of_one_word_a_lane(stride: int, expected: int) -> None:
    """gcd(stride, 32) lanes meet in a bank; stride 0 is one word that all share."""
    assert passes(LANE * stride) == expected


def test_lanes_that_read_the_same_word_share_it() -> None:
    assert passes(LANE // 8) == 1  # four words, in four banks
    assert passes(LANE // 8 * 32) == 4  # four words of one bank
    assert passes(np.where(LANE < 16, 0, 32)) == 2


@pytest.mark.parametrize(("width", "expected"), [(1, 1), (2, 2), (4, 4)])
def test_contiguous_vectors_move_128_bytes_a_pass(width: int, expected: int) -> None:
    assert passes(LANE * width, width) == expected


@pytest.mark.parametrize(("width", "parts"), [(2, 2), (4, 4)])
def test_parts_of_a_vector_load_go_one_by_one_even_if_all_read_the_same(width: int, parts: int) -> None:
    """One address for all lanes: neighbours agree, so the parts merge two and two: half of them are left."""
    assert passes(LANE * 0, width) == parts / 2


def test_halves_merge_only_if_neighbours_share_their_addresses() -> None:
    pairs, alternate = LANE // 2 * 2, LANE % 2 * 2
    assert passes(pairs, 2) == 1  # 16 addresses, 32 words: one pass
    assert passes(alternate, 2) == 1  # lane i has the address of lane i^2
    assert passes(LANE * 2, 2) == 2  # all differ: a pass a half-warp
    assert passes(np.where(LANE == 5, 2, 0), 2) == 2  # one lane breaks the pattern


def test_quarters_of_128_bit_loads() -> None:
    assert passes(LANE // 2 * 4, 4) == 2  # lanes i and i^1 agree: half-warps of 8 addresses, 32 words each
    assert passes(LANE // 8 * 4, 4) == 2  # a broadcast in each quarter: quarters merge two and two
    assert passes(LANE * 8, 4) == 8  # every other 16 B: two words a bank in each quarter


def test_requests_are_counted_apart() -> None:
    both = np.stack([LANE, LANE * 32])
    assert wavefronts(both, 1).tolist() == [1, 32]


def test_the_padded_column_of_a_transposed_tile() -> None:
    """Storing A transposed, bk = 8, rows of bm + 4 words: lanes 0 to 7 are 4 banks apart, and so are the rows of 8."""
    store = LANE % 8 * (128 + 4) + LANE // 8
    assert passes(store) == 1
    assert passes(LANE % 8 * 128 + LANE // 8) == 8  # without padding


def test_fragments_of_a_thread_tile() -> None:
    index, count = np.stack([LANE // 16, LANE % 16, LANE]), np.asarray([8, 8, 3])
    found, instructions = _fragment(index, count)
    # two LDS.128: broadcast to half-warps (one pass a merged pair: 2); 16 addresses 8 words apart; three scalar loads
    assert instructions.tolist() == [2, 2, 3]
    assert found.tolist() == [4, 16, 3]


def test_distinct_values_of_a_request() -> None:
    keys = np.stack([LANE, LANE // 8, LANE * 0, LANE % 2])
    assert distinct_runs(keys).tolist() == [32, 4, 1, 2]
