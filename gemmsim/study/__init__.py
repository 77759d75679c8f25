"""A study: a question in YAML -> plan -> predictions, and the recorded rows that say how far to trust them.

A kind of study is a module or folder here (what its YAML holds, what is asked, the answer) and one of the same name in
gemmsim.report (tables, charts, page); gemmsim.study.kinds lists them.
"""

from __future__ import annotations

from gemmsim.study.base import Study
from gemmsim.study.kinds import find_study, load_picks, open_study, study_document, study_names

__all__ = ["Study", "find_study", "load_picks", "open_study", "study_document", "study_names"]
