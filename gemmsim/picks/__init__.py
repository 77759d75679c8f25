"""The best measured configuration of a problem, from the store's rows or a CSV's; elsewhere that of a near problem.

There is no cache beside the rows: a pick is a query over them, by the index of the store.
"""

from gemmsim.picks.evidence import evidence
from gemmsim.picks.pick import Pick, Wanted, best, every, listed, measured, pick, wanted

__all__ = ["Pick", "Wanted", "best", "every", "evidence", "listed", "measured", "pick", "wanted"]
