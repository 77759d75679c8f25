"""Text that goes into the comments of other languages."""

from __future__ import annotations

from gemmsim.picks import Pick


def one_line(text: str) -> str:
    """Text without line breaks, control characters, quotes and backslashes: no comment or docstring ends by it."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.replace("\\", "/").replace('"', "'").split())


def said(pick: Pick) -> str:
    """Where a pick comes from, in a few words."""
    if pick.exact:
        notes = f"; {'; '.join(pick.notes)}" if pick.notes else ""
        return one_line(f"{1e3 * pick.timed.time_s:.4f} ms measured, L2 {pick.l2}{notes}")
    source = " x ".join(map(str, pick.source))
    return one_line(f"not measured, {1e3 * pick.predicted.time_s:.4f} ms predicted, {pick.loss or 0:.1%} over the "
                    f"model's first; from {source}")  # fmt: skip
