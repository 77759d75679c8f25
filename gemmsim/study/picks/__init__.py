"""Tile picks: the best configurations of every GEMM on every GPU, and what the newer card buys."""

from __future__ import annotations

from gemmsim.study.picks.plan import Document, PicksStudy, read

__all__ = ["Document", "PicksStudy", "read"]
