"""A study of padding: what padded sizes are predicted to gain, and time against a size, with what was measured."""

from __future__ import annotations

from gemmsim.study.padding.plan import Document, PaddingStudy, read

__all__ = ["Document", "PaddingStudy", "read"]
