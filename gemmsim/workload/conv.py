"""A convolution as the GEMM it comes to: implicit GEMM, whose A is gathered from the image and never written."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from gemmsim.errors import GemmsimError
from gemmsim.problem import Form
from gemmsim.workload.passes import Product

Pair = tuple[int, int]


@dataclass(frozen=True)
class Conv:
    """`images` of c channels, h x w, by k filters of r x s; stride, pad and dilation down and across.

    Forward: m = images P Q, n = k, k = c r s, P = (h + 2 pad - dilation (r - 1) - 1) / stride + 1 and Q likewise; with
    groups, so many problems of n = k / groups, k = c / groups r s. Source: cuDNN (Chetlur et al. 2014,
    arXiv:1410.0759). Filters lie as K x (R S C), so B is transposed.
    """

    images: int
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    _: KW_ONLY
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def result(self) -> Pair:
        """P and Q. Raises GemmsimError where the filter is larger than the padded image."""
        rows, columns = (
            (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, pad, dilation in zip(
                (self.h, self.w), (self.r, self.s), self.stride, self.pad, self.dilation, strict=True
            )
        )
        if rows < 1 or columns < 1:
            reach = " x ".join(str(d * (n - 1) + 1) for d, n in zip(self.dilation, (self.r, self.s), strict=True))
            raise GemmsimError(f"filters that reach over {reach}: expected them to fit into the padded image of "
                               f"{self.h + 2 * self.pad[0]} x {self.w + 2 * self.pad[1]}")  # fmt: skip
        return rows, columns

    def product(self, dtype: str, weights: str) -> Product:
        """The GEMM. Raises GemmsimError where groups do not divide the channels, and for what is no size or type."""
        for name, count in (("channels C", self.c), ("filters K", self.k)):
            if count % self.groups:
                raise GemmsimError(f"groups = {self.groups}: expected a divisor of the {count} {name}")
        p, q = self.result
        form = Form(dtype, weights, layout="NT", batch=self.groups)
        note = f"P x Q = {p} x {q}; A is gathered from {self.images * self.c * self.h * self.w} elements of the image"
        depth = self.c // self.groups * self.r * self.s
        found = Product("conv", "conv", self.images * p * q, self.k // self.groups, depth, 1, form, note=note)
        found.gemm  # noqa: B018 - refuses what is none
        return found
