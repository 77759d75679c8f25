"""The kernel behind studies/h200/triton_*.csv.gz: C = A @ B, fp32 accumulate, row-major, GROUP_M raster."""

import triton
import triton.language as tl


@triton.jit
def mm(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):
    """One BM x BN tile of C a program; G tile rows are walked together."""
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    per = G * nn
    grp = pid // per
    first = grp * G
    gsz = min(nm - first, G)
    pm = first + (pid % per) % gsz
    pn = (pid % per) // gsz
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + (rm % M)[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + (rn % N)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):  # noqa: PIE808
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * sbk
    tl.store(
        c + rm[:, None] * scm + rn[None, :], acc.to(c.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N)
    )
