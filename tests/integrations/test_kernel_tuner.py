"""Cachefiles of Kernel Tuner, whole and broken off, as rows."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.integrations.kernel_tuner import Cachefile, Wanted, read_cachefile, table
from gemmsim.rowfile import read_rows

TUNABLES = ("MWG", "NWG", "KWG", "MDIMC", "NDIMC")
VALUES = {"m": "problem_size_y", "n": "problem_size_x", "k": "512", "bm": "MWG", "bn": "NWG", "bk": "KWG",
          "tm": "MWG/MDIMC", "tn": "NWG / NDIMC"}  # fmt: skip
WANTED = Wanted("register_tile", None, None, "warm", VALUES)


def header(version: str | None = "1.1.0", **changed: Any) -> dict[str, Any]:
    """What a cachefile begins with: schema 1.0.0, 1.1.0, or none as Kernel Tuner 1.5.0 writes it."""
    said: dict[str, Any] = {} if version is None else {"schema_version": version}
    said |= {"device_name": "NVIDIA H200", "kernel_name": "gemm_fast", "problem_size": [1024, 2048]}
    said |= {"tune_params_keys": list(TUNABLES), "tune_params": {name: [8, 16, 64, 128] for name in TUNABLES}}
    return said | {"objective": "time"} | changed


def entry(*values: int, **more: Any) -> tuple[str, dict[str, Any]]:
    """A configuration as Kernel Tuner appends it: tunables, time in ms, every sample, what compiling took."""
    times = {"time": 0.25, "times": [0.3, 0.2, 0.21]}
    rest = {"compile_time": 918.5, "verification_time": 0, "benchmark_time": 126.4, "strategy_time": 0,
            "framework_time": 2.05, "timestamp": "2023-12-22 09:54:05.502007+00:00"}  # fmt: skip
    given = dict(zip(TUNABLES, values, strict=True)) | times | rest | more
    return ",".join(map(str, values)), {name: value for name, value in given.items() if value is not None}


ENTRIES = dict([
    entry(64, 64, 16, 16, 8, num_regs=96),
    entry(128, 64, 16, 16, 8, **{"GFLOP/s": 1948.15}),
    entry(128, 128, 16, 8, 8, __error__="CompilationFailedConfig", time=None, times=None),
    entry(64, 128, 8, 8, 8, time="RuntimeFailedConfig", times=None),
    entry(128, 128, 8, 8, 8, __error__="InvalidConfig", time=None, times=None),
])  # fmt: skip


def opened(begin: dict[str, Any], entries: dict[str, Any]) -> str:
    """The text of a cachefile while Kernel Tuner runs."""
    text = json.dumps(begin | {"cache": {}}, indent="")[:-3]
    return text + "".join("\n" + json.dumps({key: value})[1:-1] + "," for key, value in entries.items())


def closed(begin: dict[str, Any], entries: dict[str, Any]) -> str:
    """The text once it has ended."""
    return opened(begin, entries)[:-1] + "}\n}"


def written(path: Path, text: str | bytes) -> Cachefile:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_cachefile(str(path))


def rows(cache: Cachefile, wanted: Wanted = WANTED) -> list[dict[str, Any]]:
    return read_rows(table(cache, wanted), "tuned")[0]


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", None])
@pytest.mark.parametrize("write", [closed, opened, lambda h, e: json.dumps(h | {"cache": e}, indent=4)])
def test_every_format(version: str | None, write: Any, tmp_path: Path) -> None:
    cache = written(tmp_path / "a.json", write(header(version), ENTRIES))
    assert (cache.device, cache.kernel, cache.tunables, cache.unfinished) == ("NVIDIA H200", "gemm_fast", TUNABLES, 0)
    assert cache.sizes == {"problem_size_x": 1024, "problem_size_y": 2048}
    assert cache.entries == ENTRIES


def test_rows_in_seconds_with_a_status(tmp_path: Path) -> None:
    found = rows(written(tmp_path / "a.json", closed(header(), ENTRIES)))
    first = found[0]
    assert {name: first[name] for name in ("gpu", "family", "dtype", "l2", "m", "n", "k", "status", "campaign")} == {
        "gpu": "h200_sxm", "family": "register_tile", "dtype": "fp32", "l2": "warm", "m": 2048, "n": 1024, "k": 512,
        "status": "ok", "campaign": "tuned",
    }  # fmt: skip
    assert first["config"] == {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 8}
    assert first["samples_s"] == pytest.approx([3e-4, 2e-4, 2.1e-4])
    assert (first["time_s"], first["min_s"], first["sample_count"]) == (pytest.approx(2.1e-4), pytest.approx(2e-4), 3)
    assert first["tflops"] == pytest.approx(2 * 2048 * 1024 * 512 / 2.1e-4 / 1e12)
    assert (first["regs_per_thread"], found[1]["regs_per_thread"]) == (96, None)
    assert first["kernel_hash"] == "kernel_tuner:gemm_fast"
    assert first["measured_at"] == "2023-12-22 09:54:05.502007+00:00"
    assert [(row["status"], row["reason"]) for row in found[1:]] == [
        ("ok", None), ("compile", "CompilationFailedConfig"), ("launch", "RuntimeFailedConfig"),
        ("refused", "InvalidConfig"),
    ]  # fmt: skip
    assert [row["time_s"] for row in found[2:]] == [None] * 3


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"time": 1e20}, "launch"), ({"time": 0}, "launch"), ({"time": float("nan")}, "launch"),
        ({"__error__": "timeout"}, "timeout"), ({"__error__": "correctness"}, "wrong"),
        ({"__error__": "ErrorConfig"}, "launch"), ({"time": 1, "energy": "InvalidConfig"}, "refused"),
    ],
)  # fmt: skip
def test_other_failures(said: dict[str, Any], status: str, tmp_path: Path) -> None:
    entries = dict([entry(64, 64, 16, 16, 8, **said)])
    assert rows(written(tmp_path / "a.json", closed(header(), entries)))[0]["status"] == status


def test_a_time_without_samples(tmp_path: Path) -> None:
    entries = dict([entry(64, 64, 16, 16, 8, times=None)])
    row = rows(written(tmp_path / "a.json", closed(header(), entries)))[0]
    assert (row["time_s"], row["sample_count"], row["samples_s"]) == (2.5e-4, 1, [2.5e-4])


def test_tunables_that_are_called_like_parameters_need_no_mapping(tmp_path: Path) -> None:
    names = ("bm", "bn", "bk", "tm", "tn")
    entries = {"64,64,16,4,4": dict(zip(names, (64, 64, 16, 4, 4), strict=True)) | {"time": 1.0}}
    begin = header(kernel_name="register_tile", tune_params_keys=list(names), problem_size=4096)
    cache = written(tmp_path / "a.json", closed(begin, entries))
    sizes = dict.fromkeys("mnk", "problem_size_x")
    assert rows(cache, Wanted(values=sizes))[0]["config"] == dict(zip(names, (64, 64, 16, 4, 4), strict=True))


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """Either it says that the header is not there, or the entries that are complete are kept."""
    data = closed(header(problem_size=[1024, 2048, 1]), ENTRIES).encode()
    text, ends, at = data.decode(), {}, 0
    for key, value in ENTRIES.items():
        at = text.index(json.dumps({key: value})[1:-1]) + len(json.dumps({key: value})[1:-1])
        ends[key] = at
    begins = text.index('"cache": {') + len('"cache": {')
    for size in range(len(data)):
        if size < begins:
            with pytest.raises(GemmsimError, match="expected a cachefile of Kernel Tuner") as caught:
                written(tmp_path / "a.json", data[:size])
            assert ". " not in str(caught.value)
            continue
        cache = written(tmp_path / "a.json", data[:size])
        assert list(cache.entries) == [key for key, end in ends.items() if end <= size]
        assert {key: ENTRIES[key] for key in cache.entries} == cache.entries
        rest = text[max([begins, *(end for end in ends.values() if end <= size)]) : size]
        assert cache.unfinished == bool(rest.strip("\n,} "))
        if cache.entries:
            assert len(rows(cache)) == len(cache.entries)


def test_an_entry_that_was_broken_off_before_the_next_run_appended(tmp_path: Path) -> None:
    text = opened(header(), ENTRIES)
    second = text.index('"128,64,16,16,8"')
    broken = text[: second + 60] + text[text.index("\n", second + 60) :]
    cache = written(tmp_path / "a.json", broken)
    assert list(cache.entries) == [key for key in ENTRIES if key != "128,64,16,16,8"]
    assert cache.unfinished == 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2000), st.integers(0, 100))
def test_bytes_that_were_damaged_never_crash(tmp_path_factory: Any, noise: bytes, at: int, length: int) -> None:
    data = closed(header(), ENTRIES).encode()
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    with contextlib.suppress(GemmsimError):
        rows(written(path, data[:at] + noise + data[at + length :]))


@pytest.mark.parametrize(
    ("changed", "wanted", "message"),
    [
        ({}, Wanted(), r"a.json: kernel 'gemm_fast' has the name of no family: expected --family F, and --map "),
        ({}, Wanted("register_tile"),
         r"a.json: kernel 'gemm_fast' says no m, n, k, bm, bn, bk, tm, tn: expected --map m=..., a number or of MWG, "
         r"NWG, KWG, MDIMC, NDIMC, problem_size_x \(1024\), problem_size_y \(2048\)"),
        ({"problem_size": "callable"}, WANTED, "unknown tunable 'problem_size_y' in --map m=problem_size_y: "),
        ({}, Wanted("register_tile", values=VALUES | {"wm": "64"}),
         "unknown size or parameter of family register_tile 'wm' in --map"),
        ({}, Wanted("register_tile", values=VALUES | {"tm": "MWG/KWG/KWG"}),
         r"a.json, cache entry '64,64,16,16,8': tm = MWG/KWG/KWG is 64/256: expected a whole number"),
        ({}, Wanted("register_tile", values=VALUES | {"k": "10000000000"}), "a.json, .*k = 10000000000 is 10000000000"),
        ({"device_name": "Testing"}, WANTED, "a.json: device_name: unknown GPU 'Testing': .*or another one with --gpu"),
        ({}, Wanted("register_tile", gpu="h2000", values=VALUES), "--gpu: unknown GPU 'h2000'"),
        ({}, Wanted("gemm", values=VALUES), "unknown family 'gemm' in --family"),
        ({}, Wanted("register_tile", "bf16", values=VALUES), "family register_tile has no bf16 kernel"),
        ({}, Wanted("register_tile", "bf61", values=VALUES), "unknown dtype 'bf61' in --dtype: did you mean bf16"),
        ({}, Wanted("triton", values=VALUES), "unknown size or parameter of family triton 'tm'"),
        ({}, Wanted("register_tile", l2="hot", values=VALUES), "unknown L2 condition 'hot' in --l2"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(changed: dict[str, Any], wanted: Wanted, message: str, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GemmsimError, match=f"^{message}") as caught:
        table(written(Path("a.json"), closed(header(**changed), ENTRIES)), wanted)
    assert ". " not in str(caught.value)


def test_a_family_of_several_types_needs_one(tmp_path: Path) -> None:
    values = dict.fromkeys(("m", "n", "k"), "512") | dict.fromkeys(("bm", "bn", "bk"), "MWG")
    values |= {"num_warps": "4", "num_stages": "3", "group_m": "8"}
    cache = written(tmp_path / "a.json", closed(header(), ENTRIES))
    with pytest.raises(GemmsimError, match="says no dtype: expected --dtype, of triton's bf16, fp16, tf32, fp8, int8"):
        table(cache, Wanted("triton", values=values))
    assert rows(cache, Wanted("triton", "float16", values=values))[0]["dtype"] == "fp16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a cachefile of Kernel Tuner with device_name, found nothing"),
        ("[]", "expected a cachefile of Kernel Tuner, found no JSON object"),
        ('{"results": []}', "expected a cachefile of Kernel Tuner with device_name, found results"),
        (json.dumps(header() | {"cache": []}), r"cache is \[\]: expected a cachefile of Kernel Tuner"),
        (json.dumps(header() | {"cache": {}}), "expected configurations in cache, found none"),
        (json.dumps(header() | {"cache": dict([entry(64, 64, 16, 16, 8, time=True)])}), "time is True: expected milli"),
        (json.dumps(header() | {"cache": {"1": 2}}), "cache entry '1' is 2: expected an object"),
        (closed(header(), dict([entry(64, 64, 16, 16, 8, time=None)])), "time is None: expected milliseconds"),
        (closed(header(), dict([entry(64, 64, 16, 16, 8, MDIMC="a")])), "MDIMC is 'a': expected a whole number"),
        (closed(header(), dict([entry(64, 64, 16, 16, 8, MWG=None)])), "MWG is missing: expected a whole number"),
    ],
)  # fmt: skip
def test_what_is_no_cachefile(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match=message):
        rows(written(tmp_path / "a.json", text))


def test_no_such_file() -> None:
    with pytest.raises(GemmsimError, match=r"^/nowhere/a.json: cannot be read: No such file or directory$"):
        read_cachefile("/nowhere/a.json")
