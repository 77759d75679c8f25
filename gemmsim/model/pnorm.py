"""Soft maximum: several things that overlap take about as long as the longest, and a little more where two are near."""

from __future__ import annotations

from functools import reduce

import numpy as np

from gemmsim.problem import FloatArray


def soft_max(sharpness: FloatArray | float, *terms: FloatArray) -> FloatArray:
    """(sum of x^p)^(1/p) for p = sharpness; p -> infinity is the maximum, p = 1 the sum. Terms are >= 0."""
    if isinstance(sharpness, float) and sharpness == 4:
        fourth = sum((np.square(np.square(x)) for x in terms[1:]), np.square(np.square(terms[0])))
        return np.asarray(np.sqrt(np.sqrt(fourth)))
    top = reduce(np.maximum, terms)
    scale = np.where(top > 0, top, 1)  # powers of shares neither overflow nor vanish
    with np.errstate(divide="ignore"):
        total = sum(np.exp(sharpness * np.log(x / scale)) for x in terms)
        return np.asarray(scale * np.exp(np.log(total) / sharpness))
