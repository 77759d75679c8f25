"""Parts of the times of many rows at once: those of each row alone, with the rows' own compiler facts."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsim
from gemmsim.model.parts import parts
from gemmsim.model.predict import freed

SIZES = np.asarray([[4096, 4096, 4096], [64, 4096, 4096], [4097, 513, 100]]).T


def test_parts_of_a_batch_are_those_of_each_row() -> None:
    p = gemmsim.predict(*SIZES, gpu="h200_sxm", terms=True)
    found = parts(p)
    assert len({tuple(sorted(row)) for row in found}) > 1  # other terms count in another shape
    for row, size in zip(found, SIZES.T.tolist(), strict=True):
        said = {t.name: t.part_s for t in gemmsim.explain(*size, gpu="h200_sxm").terms if t.part_s}
        assert row == pytest.approx(said)


def test_a_time_with_terms_free_is_what_predict_says() -> None:
    facts = {"regs_per_thread": [255.0] * 3, "spill_bytes": [64.0] * 3}
    p = gemmsim.predict(*SIZES, gpu="h200_sxm", facts=facts, terms=True)
    time_s = freed(p, np.asarray([2, 0]))
    for free in ((), ("alignment",), ("l2", "spill")):
        said = gemmsim.predict(*SIZES, gpu="h200_sxm", facts=facts, without=free).time_s
        assert time_s(frozenset(free)).tolist() == said[[2, 0]].tolist()
    assert any("spill" in row for row in parts(p))


def test_a_row_that_cannot_launch_has_no_parts() -> None:
    p = gemmsim.predict(4096, 4096, 4096, gpu="h200_sxm", config={"num_stages": [3, 6], "bm": 256, "bn": 256},
                        terms=True)  # fmt: skip
    assert p.feasible.tolist() == [True, False]
    first, second = parts(p)
    assert first
    assert second == {}
