"""Rows of a few configurations, as a campaign would store them."""

from __future__ import annotations

from typing import Any

TILES = {"a": (128, 256, 64, 8, 3, 8), "b": (128, 128, 64, 4, 4, 8), "c": (64, 128, 64, 4, 4, 8)}
_NAMES = ("bm", "bn", "bk", "num_warps", "num_stages", "group_m")


def config(tile: str) -> dict[str, int]:
    return dict(zip(_NAMES, TILES[tile], strict=True))


def row(tile: str = "a", time_s: float | None = 2e-4, day: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of family triton, bf16, 4096 cubed, measured on a day of November."""
    plain = {
        "campaign": "c", "gpu": "h200_sxm", "family": "triton", "dtype": "bf16", "dtype_b": "bf16", "dtype_c": "bf16",
        "layout": "NN", "batch": 1, "beta": 0, "epilogue": "", "m": 4096, "n": 4096, "k": 4096,
        "kernel_hash": f"{tile}1", "l2": "cold_clean", "timing": "event", "against": "", "config": config(tile),
        "status": "ok", "time_s": time_s, "unstable": "", "compiler": "triton 3.6.0", "product": "NVIDIA H200",
        "samples_s": [time_s, time_s], "sample_count": 2, "p20_s": time_s, "p80_s": time_s,
        "sm_clock_hz_before": 1.98e9, "sm_clock_hz_after": 1.98e9,
        "measured_at": f"2026-11-{day:02d}T10:00:00.000+00:00",
    }  # fmt: skip
    return plain | changes
