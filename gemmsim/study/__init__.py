"""A study: a question in YAML -> plan -> predictions, and the recorded rows that say how far to trust them."""

from __future__ import annotations

from gemmsim.study.plan import Study, Work, find_study, load_study, study_names, with_gpus
from gemmsim.study.run import Outcome, run, steps

__all__ = ["Outcome", "Study", "Work", "find_study", "load_study", "run", "steps", "study_names", "with_gpus"]
