"""Sweeps: one of M, N and K varies, the others stay, and some kernels' curves are drawn against it."""

from __future__ import annotations

from gemmsim.study.sweep.plan import Document, SweepStudy, read

__all__ = ["Document", "SweepStudy", "read"]
