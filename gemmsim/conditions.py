"""What a time means. The one definition that predictions, rows and measurements share.

`time_s` is one launch of the kernel between two events on a stream that is already busy (so the host's launch cost is
hidden, the device's is not), inputs standard normal. The L2 condition says what the cache held when the kernel began:

cold_clean  nothing of A, B or C, and no dirty lines (written over, then another buffer read): the default
cold_dirty  nothing of A, B or C, but full of dirty lines, which must be written back while the kernel runs: what a
            benchmark that clears the cache by writing to it leaves behind (Triton's do_bench does)
warm        what the same kernel left there one launch ago
"""

from __future__ import annotations

from gemmsim.errors import unknown

L2_CONDITIONS = ("cold_clean", "cold_dirty", "warm")
DEFAULT_L2 = "cold_clean"
#: what the same row differs by on another H200 at another hour, mean of 60 rows each (studies/h200/conditions.csv.gz):
#: an error or a regret inside it says nothing. Other types were not timed twice
NOISE_FLOOR = {"fp32": 0.004, "bf16": 0.025}

#: a median over so many times the minimum was disturbed, and the minimum stands for it
DISTURBED = 2.0


def l2_condition(text: str, *, where: str = "") -> str:
    """The L2 condition of that name. Raises GemmsimError for an unknown one."""
    if text not in L2_CONDITIONS:
        raise unknown("L2 condition", text, L2_CONDITIONS, where=where)
    return text
