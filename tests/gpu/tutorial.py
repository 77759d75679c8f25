"""A matmul with the arguments and meta-parameters of Triton's tutorial, either operand in either layout."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_SIZE_M), tl.cdiv(N, BLOCK_SIZE_N)
    group = pid // (GROUP_SIZE_M * tiles_n)
    height = min(tiles_m - group * GROUP_SIZE_M, GROUP_SIZE_M)
    within = pid % (GROUP_SIZE_M * tiles_n)
    rows = (group * GROUP_SIZE_M + within % height) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    columns = within // height * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    depth = tl.arange(0, BLOCK_SIZE_K)
    a = a_ptr + (rows % M)[:, None] * stride_am + depth[None, :] * stride_ak
    b = b_ptr + depth[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):  # noqa: PIE808
        left = K - k * BLOCK_SIZE_K
        x = tl.load(a, mask=depth[None, :] < left, other=0.0)
        y = tl.load(b, mask=depth[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a += BLOCK_SIZE_K * stride_ak
        b += BLOCK_SIZE_K * stride_bk
    c = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))
