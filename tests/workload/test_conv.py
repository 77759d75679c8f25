"""Convolutions: the GEMM's sizes against a convolution that is carried out position by position."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.workload import Conv


def test_a_layer_of_resnet_50() -> None:
    found = Conv(32, 64, 56, 56, 128, 3, 3, stride=(2, 2), pad=(1, 1)).product("bf16", "fp8")
    assert (found.m, found.n, found.k, found.form.batch, found.count) == (32 * 28 * 28, 128, 576, 1, 1)
    assert (found.gemm.layout, found.gemm.dtype_b, found.weight_bytes) == ("NT", "fp8", 128 * 576)
    assert "6422528 elements" in found.note


def test_groups_are_problems_of_a_batch() -> None:
    found = Conv(1, 32, 8, 8, 64, 3, 3, groups=32).product("fp16", "fp16")
    assert (found.m, found.n, found.k, found.form.batch) == (36, 2, 9, 32)


@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)), taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)), pad=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dilation=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)  # fmt: skip
def test_positions_are_those_where_the_filter_fits(
    size: tuple[int, int], taps: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int],
    dilation: tuple[int, int],
) -> None:  # fmt: skip
    conv = Conv(2, 3, *size, 5, *taps, stride=stride, pad=pad, dilation=dilation)
    fits = [
        [x for x in range(-pad[i], size[i] + pad[i], stride[i]) if x + dilation[i] * (taps[i] - 1) < size[i] + pad[i]]
        for i in (0, 1)
    ]
    count = len(list(product(*fits)))
    if not count:
        with pytest.raises(GemmsimError, match="expected them to fit into the padded image"):
            conv.product("bf16", "bf16")
        return
    found = conv.product("bf16", "bf16")
    assert (found.m, found.n, found.k) == (2 * count, 5, 3 * taps[0] * taps[1])


def test_groups_that_do_not_divide() -> None:
    with pytest.raises(GemmsimError, match=r"^groups = 3: expected a divisor of the 32 channels C$"):
        Conv(1, 32, 8, 8, 63, 3, 3, groups=3).product("bf16", "bf16")
    with pytest.raises(GemmsimError, match=r"^groups = 4: expected a divisor of the 62 filters K$"):
        Conv(1, 32, 8, 8, 62, 3, 3, groups=4).product("bf16", "bf16")
