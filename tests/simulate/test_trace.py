"""A schedule as a trace: what Perfetto reads of it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gemmsim import GemmsimError, predict
from gemmsim.simulate import schedule as simulated
from gemmsim.simulate import trace as module
from gemmsim.simulate.schedule import Schedule, schedule
from gemmsim.simulate.trace import trace


def of(m: int, n: int, k: int, family: str = "simt", dtype: str = "fp32", **config: int) -> Schedule:
    return schedule(predict(m, n, k, gpu="h200_sxm", dtype=dtype, family=family, config=config))


def slices(path: Path) -> list[dict[str, Any]]:
    return [event for event in json.loads(path.read_bytes())["traceEvents"] if event["ph"] == "X"]


@pytest.mark.parametrize("more", [{}, {"split_k": 5}, {"split_k": 3, "split_tail": 1}, {"stream_k": 1}])
def test_a_slice_a_block_and_no_two_overlap_on_a_track(more: dict[str, int], tmp_path: Path) -> None:
    s, path = of(1500, 2000, 1024, **more), tmp_path / "out.json"
    assert trace(s, str(path)) == ""
    found = slices(path)
    blocks = [e for e in found if "args" in e]
    assert sorted(e["args"]["block"] for e in blocks) == list(range(len(s)))
    for e in blocks:
        i = e["args"]["block"]
        assert e["name"] == f"tile {s.row[i]}, {s.column[i]}"
        assert e["ts"] == pytest.approx(s.start_s[i] * 1e6, abs=1e-3)
        assert (e["tid"] - 1) // s.slots == s.sm[i]
    tracks = defaultdict(list)
    for e in found:
        tracks[e["tid"]].append((round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3)))
    for spans in tracks.values():
        for a in spans:
            for b in spans:
                assert (
                    a[1] <= b[0] or b[1] <= a[0] or (a[0] <= b[0] and b[1] <= a[1]) or (b[0] <= a[0] and a[1] <= b[1])
                )


def test_names_phases_and_what_it_is_of(tmp_path: Path) -> None:
    s, path = of(512, 512, 4096, stream_k=1), tmp_path / "out.json"
    trace(s, str(path))
    document = json.loads(path.read_bytes())
    assert document["otherData"] == {
        "configuration": s.key, "gpu": "h200_sxm", "makespan_s": s.makespan_s, "left_out": "",
    }  # fmt: skip
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert names[:3] == ["launch", "SM 0, slot 0", "SM 0, slot 1"]
    assert len(names) == 1 + 2 * 132
    assert {e["name"] for e in slices(path)} >= {"launch", "load", "main loop", "fix-up", "epilogue", "tile 0, 0"}


def test_the_second_kernel_ends_the_launch(tmp_path: Path) -> None:
    s, path = of(512, 512, 4096, split_k=4), tmp_path / "out.json"
    trace(s, str(path))
    last = next(e for e in slices(path) if e["name"] == "sum slices")
    assert last["ts"] + last["dur"] == pytest.approx(s.makespan_s * 1e6, abs=2e-3)
    assert last["ts"] >= max(e["ts"] + e["dur"] for e in slices(path) if "args" in e) - 2e-3


def test_problems_of_a_batch_are_named(tmp_path: Path) -> None:
    from gemmsim.problem import Form

    s = schedule(predict(256, 256, 256, gpu="h200_sxm", dtype=Form("bf16", batch=3), family="triton"))
    trace(s, str(tmp_path / "out.json"))
    names = [e["name"] for e in slices(tmp_path / "out.json") if "args" in e]
    assert names[0] == "problem 0, tile 0, 0"
    assert names[-1].startswith("problem 2, tile ")


def test_it_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s, path = of(1024, 1024, 512), tmp_path / "out.json"
    monkeypatch.setattr(module, "MOST_SLICES", 100)
    assert len(s) == 64
    assert trace(s, str(path)) == "the phases inside blocks"
    assert len(slices(path)) == 1 + 64
    monkeypatch.setattr(module, "MOST_SLICES", 10)
    assert trace(s, str(path)) == "54 of 64 blocks, the last to start, and the phases inside blocks"
    assert len(slices(path)) == 1 + 10


def test_nothing_simulated_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "MOST_PIECES", 10)
    s = of(1024, 1024, 512)
    with pytest.raises(GemmsimError, match=r"64 blocks, more than the 10 .* expected a launch of fewer blocks"):
        trace(s, str(tmp_path / "out.json"))
    assert not list(tmp_path.iterdir())
