"""A study of heat maps: the best predicted time over a plane of two parameters, beside the best that was measured."""

from __future__ import annotations

from gemmsim.study.heatmap.plan import Document, HeatmapStudy, read

__all__ = ["Document", "HeatmapStudy", "read"]
