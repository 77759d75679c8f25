"""Numbers as people read them: us below 1 ms, TFLOP/s, GB/s in base 10, MiB; `1` is a fraction shown as percent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

#: unit -> (below this, divide by, decimals, shown unit); the first line that fits is taken
SCALES: dict[str, tuple[tuple[float, float, int, str], ...]] = {
    "s": ((1e-3, 1e-6, 1, "us"), (1, 1e-3, 2, "ms"), (float("inf"), 1, 3, "s")),
    "FLOP/s": ((float("inf"), 1e12, 1, "TFLOP/s"),),
    "tera": ((float("inf"), 1e12, 1, ""),),  # where the column's title has the unit
    "FLOP": ((1e12, 1e9, 1, "GFLOP"), (float("inf"), 1e12, 2, "TFLOP")),
    "B/s": ((float("inf"), 1e9, 0, "GB/s"),),
    "B": ((2**20, 2**10, 1, "KiB"), (2**30, 2**20, 1, "MiB"), (float("inf"), 2**30, 2, "GiB")),
    "MB": ((float("inf"), 1e6, 0, ""),),  # where a column holds one size of number: the unit is in its title
    "MHz": ((float("inf"), 1e6, 0, ""),),
    "rho": ((float("inf"), 1, 3, ""),),
    "1": ((float("inf"), 0.01, 1, "%"),),
}
MISSING = "-"


def human(value: Any, unit: str = "") -> str:
    """A value with its unit; `-` where there is none. What rounds to zero has no sign."""
    if value is None or (isinstance(value, float) and value != value):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    for below, factor, decimals, shown in SCALES.get(unit, ()):
        if abs(value) < below:
            return f"{value / factor:z,.{decimals}f} {shown}".rstrip()
    if unit == "x":
        return f"{value:.2f}x"
    return f"{value:,}" if isinstance(value, int) else f"{value:z.3g}"


def percent(share: Any, digits: int = 1) -> str:
    """A share in a sentence: 12.3 %."""
    return f"{100 * share:z.{digits}f} %"


def span(shares: Iterable[Any], digits: int = 1) -> str:
    """The least and the largest of some shares in a sentence: 1.2 to 3.4 %; one figure where they read the same."""
    found = list(shares)
    low, high = percent(min(found), digits), percent(max(found), digits)
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def count(number: int, what: str) -> str:
    """So many of something: 1 edge, 5 edges."""
    return f"{number} {what}{'s' * (number != 1)}"


def signed(shares: Iterable[Any], digits: int = 1) -> str:
    """Differences in a sentence, the least and the largest, with their signs: -2.0 to +3.5 %."""
    found = list(shares)
    low, high = (_signed(100 * share, digits) for share in (min(found), max(found)))
    return f"{high} %" if low == high else f"{low} to {high} %"


def _signed(value: float, digits: int) -> str:
    text = f"{value:z.{digits}f}"
    return f"+{text}" if float(text) > 0 else text


def listed(parts: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def sizes(name: str, found: Iterable[int]) -> str:
    """A size, or the least and the largest: M = 2048, M from 1 to 64."""
    low, *rest = sorted(set(found))
    return f"{name} from {low} to {rest[-1]}" if rest else f"{name} = {low}"
