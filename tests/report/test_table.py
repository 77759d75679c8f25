"""Tables of reports: what a reader sees of a long one, rows taken, places of the largest."""

from __future__ import annotations

from gemmsim.report.table import KEPT, LONG, Column, Telling, largest, table


def test_a_short_table_is_all_there_whatever_is_telling() -> None:
    rows = [{"n": i} for i in range(LONG)]
    short = table("t", "T", [Column("n", "n")], rows, telling=Telling((3,), "one"))
    assert short.brief.rows() == rows
    assert len(short.told.rows) == LONG


def test_of_a_long_table_the_telling_rows_are_seen_or_the_first() -> None:
    rows = [{"n": i} for i in range(LONG + 1)]
    first = table("t", "T", [Column("n", "n")], rows)
    assert first.brief.data["n"] == list(range(KEPT))
    assert first.told.which == "the first"
    told = table("t", "T", [Column("n", "n")], rows, telling=Telling((7, 3), "two of them"))
    assert told.brief.data["n"] == [7, 3]
    assert len(told) == LONG + 1


def test_the_largest_come_first_and_equal_ones_in_their_order() -> None:
    assert largest([1.0, 3.0, 2.0, 3.0], 3) == (1, 3, 2)
    assert largest([]) == ()
