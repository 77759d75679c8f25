"""A study: a question in YAML -> plan -> predictions, and the recorded rows that say how far to trust them."""

from __future__ import annotations

from gemmsim.study.curves import SearchStudy
from gemmsim.study.orders import RasterStudy
from gemmsim.study.outcome import Outcome, run, steps
from gemmsim.study.plan import Study, Work, find_study, load_study, open_study, study_names, with_gpus

__all__ = [
    "Outcome", "RasterStudy", "SearchStudy", "Study", "Work", "find_study", "load_study", "open_study", "run", "steps",
    "study_names", "with_gpus",
]  # fmt: skip
