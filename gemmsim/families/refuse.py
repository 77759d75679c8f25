"""Refusals: why a configuration cannot run, with a code, the number found, the limit and the unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.errors import GemmsimError
from gemmsim.families.traits import Parameter

STATIC_SMEM_BYTES = 48 * 1024  # a __shared__ array cannot be larger
MAX_GRID_Y = 65535


def layout_lacking(layout: str, have: Sequence[str], why: str = "") -> str:
    """What a family says that has no kernel for a layout, and which it has; why: the rule that leaves others out."""
    return f"for layout {layout}: it has {', '.join(have)}{f', since {why}' if why else ''}"


def check_layout(family: str, layout: str, have: Sequence[str], why: str = "") -> None:
    """Raise GemmsimError for a layout that is none of those the family has."""
    if layout not in have:
        raise GemmsimError(f"family {family} has no kernel {layout_lacking(layout, have, why)}")


@dataclass(frozen=True)
class _Rule:
    code: str
    unit: str
    limit: float | None
    found: npt.NDArray[np.float64] | None


class Refusals:
    """The first rule that each of `rows` configurations breaks, if any."""

    def __init__(self, rows: int) -> None:
        self.rule = np.full(rows, -1, np.int64)  # position in rules; -1: may run
        self.rules: list[_Rule] = []

    @property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Rows that no rule refuses."""
        return self.rule < 0

    def over(self, code: str, found: npt.ArrayLike, limit: float, unit: str = "") -> None:
        """Refuse the rows whose number is over the limit."""
        number = np.asarray(found, np.float64)
        self._add(_Rule(code, unit, limit, number), number > limit)

    def under(self, code: str, found: npt.ArrayLike, least: float) -> None:
        """Refuse the rows whose number is under the least."""
        number = np.asarray(found, np.float64)
        self._add(_Rule(code, f"{{found:.0f}}, at least {least:.0f}", None, number), number < least)

    def when(self, code: str, broken: npt.ArrayLike, sentence: str) -> None:
        """Refuse the rows where a rule without a number is broken."""
        self._add(_Rule(code, sentence, None, None), np.asarray(broken, bool))

    def outside(self, p: Parameter, value: npt.NDArray[np.int64]) -> None:
        """Refuse the rows whose parameter has a value that the family's kernel cannot take."""
        self.over(p.name, value, p.high)
        self.under(p.name, value, p.low)
        if p.power_of_two:
            odd = value & (value - 1) != 0
            self._add(_Rule(p.name, "{found:.0f} is not a power of two", None, value.astype(np.float64)), odd)

    def _add(self, rule: _Rule, broken: npt.NDArray[np.bool_]) -> None:
        self.rule[broken & (self.rule < 0)] = len(self.rules)
        self.rules.append(rule)

    def code(self, i: int) -> str:
        """The code of the rule that refuses row i; empty if none does."""
        return self.rules[self.rule[i]].code if self.rule[i] >= 0 else ""

    def reason(self, i: int) -> str:
        """Code, number, limit and unit for row i; empty if nothing refuses it."""
        if self.rule[i] < 0:
            return ""
        rule = self.rules[self.rule[i]]
        if rule.found is None:
            return f"{rule.code}: {rule.unit}"
        found = float(rule.found[i] if rule.found.ndim else rule.found)
        if rule.limit is None:
            return f"{rule.code}: {rule.unit.format(found=found)}"
        return f"{rule.code}: {f'{found:.0f} {rule.unit}'.strip()}, limit {rule.limit:.0f}"

    def reasons(self) -> list[str]:
        """`reason` of every row."""
        out = [""] * len(self.rule)
        for i in np.flatnonzero(self.rule >= 0):
            out[i] = self.reason(int(i))
        return out
