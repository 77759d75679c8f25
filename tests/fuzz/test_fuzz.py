"""Generated input: exit code 2 with one sentence and nothing written, or a right answer, the same on a second run.

Right: every number finite and >= 0, no time under what the multiply-adds alone take, each time inside its interval, the
rows of a batch in order with their columns as they were. Derandomized: every run draws the same examples.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import gzip
import io
import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemmsim import GemmsimError, families, load_gpu, predict
from gemmsim.cli import main
from gemmsim.cli.batch import FORM, OVERRIDES, result_names
from gemmsim.conditions import L2_CONDITIONS
from gemmsim.hardware import gpu_names
from gemmsim.model.demand import TERMS
from gemmsim.paths import data_folder
from gemmsim.problem import DTYPE_BYTES, EPILOGUES, LAYOUTS
from gemmsim.rows import out_names
from gemmsim.simulate.raster import RASTERS


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip


# ------------------------------------------------------------------------------------------------ running


@dataclass(frozen=True)
class Answer:
    code: object
    out: str
    err: str
    files: dict[str, bytes]


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All files lie in one folder, which is the current one."""
    before, here = Path.cwd(), tmp_path_factory.mktemp("fuzz")
    os.chdir(here)
    yield here
    os.chdir(before)


def files() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path().rglob("*")) if p.is_file()}


def clear() -> None:
    for path in sorted(Path().rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def forget(found: Answer) -> None:
    for name in found.files:
        Path(name).unlink()


def once(arguments: Sequence[str]) -> Answer:
    before = files()
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        out.flush()
    new = {name: data for name, data in files().items() if before.get(name) != data}
    return Answer(caught.value.code, out.buffer.getvalue().decode(), err.getvalue(), new)  # type: ignore[attr-defined]


def run(arguments: Sequence[str]) -> Answer:
    """The answer, after the checks that hold for every command; asked twice, given once."""
    found = once(arguments)
    forget(found)
    again = once(arguments)
    forget(again)
    assert found == again, "another answer the second time"
    assert found.code in (0, 2), found
    if found.code == 2:
        assert found.err.startswith("gemmsim: "), found.err
        assert found.err.count("\n") == 1, found.err
        assert found.err[:-1].isprintable()
        assert "Traceback" not in found.err
        checked = list(arguments[:2]) == ["specs", "check"]
        assert checked or not (found.out or found.files), "wrong input left something behind"
    return found


def strict(text: str) -> Any:
    """JSON without NaN and infinity, every number >= 0."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    found = json.loads(text, parse_constant=refuse)
    for value in numbers(found):
        assert math.isfinite(value)
    return found


def numbers(tree: Any) -> Iterator[float]:
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from numbers(value)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield tree


def right(row: dict[str, Any], free: bool) -> None:
    """One prediction by its named numbers: inside its interval, not under what its multiply-adds take."""
    keys = ("m", "n", "k", "batch", "sm_count", "time_s", "time_lo_s", "time_hi_s")
    m, n, k, batch, sms, time_s, low, high = (float(row[key]) for key in keys)
    assert 0 <= low <= time_s <= high
    gpu, dtype = load_gpu(row["gpu"]), row["dtype"]
    peak = 2 * gpu.arch.fma_per_clk_per_sm[dtype] * sms * gpu.clock_hz
    assert free or time_s * (1 + 1e-12) >= 2 * m * n * k * batch / peak
    assert free or time_s > 0
    assert all(float(v) >= 0 for key, v in row.items() if key.endswith(("_s", "_bytes", "tflops", "waves")))


# ------------------------------------------------------------------------------------------------ what is asked

NONSENSE = (
    ",", "bm=", "", " ", "0", "-1", "-0", "nan", "inf", "1e9", "1_000", "0x10", "２", str(2**31), str(2**63),
    "9" * 400, "-" + "9" * 30, "é", "a\nb", "a\r", "\u2028", "\udcff", "--", "-", "None", "null", "true", "[]", "a,b",
    '"', "'", "%s", "../..", ".", "/", "~", "no/such.yaml", "x" * 300, "BF16", "h100", "H200", "auto", "all", "=",
)  # fmt: skip
SIGNS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")  # no argument can hold a null
nonsense = st.one_of(st.sampled_from(NONSENSE), st.text(SIGNS, max_size=8), st.integers(-(2**65), 2**65).map(str))
GPUS = gpu_names()
SLICES = [f"{name}:{profile}" for name in GPUS for profile in load_gpu(name).mig_profiles]
gpus = st.one_of(st.sampled_from(GPUS), st.sampled_from(["h200_sxm", "h100_sxm", "NVIDIA H200", "b200_sxm", *SLICES]))
sizes = st.one_of(
    st.integers(1, 300), st.integers(1, 128).map(lambda x: 64 * x), st.sampled_from([1, 16, 4096, 2**31 - 1])
)
KERNELS = [(name, dtype) for name in families.FAMILIES for dtype in families.family(name).DTYPES]


def rarely(draw: st.DrawFn, chance: int = 12) -> bool:
    return draw(st.integers(1, chance)) == chance


def text(draw: st.DrawFn, good: st.SearchStrategy[Any], chance: int = 25) -> str:
    """Mostly a good value, now and then nonsense."""
    return draw(nonsense) if rarely(draw, chance) else str(draw(good))


@st.composite
def kernels(draw: st.DrawFn) -> tuple[str, str]:
    """A family and a dtype, mostly of its own."""
    family, dtype = draw(st.sampled_from(KERNELS))
    return (family, draw(st.sampled_from([*DTYPE_BYTES]))) if rarely(draw) else (family, dtype)


def choice(p: Any) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from(p.choices), st.integers(0, 300)) if p.low == 0 else st.sampled_from(p.choices)


@st.composite
def parameters(draw: st.DrawFn, family: str) -> list[str]:
    """-p and --tile."""
    known = families.family(family).PARAMETERS
    found: list[str] = []
    if draw(st.booleans()):
        by_name = {p.name: p for p in known}
        tile = "x".join(str(draw(choice(by_name[name]))) for name in ("bm", "bn", "bk"))
        found += ["--tile", text(draw, st.just(tile))]
    for p in known:
        if draw(st.integers(1, 3)) == 1 and not (found and p.name in ("bm", "bn", "bk")):
            found += ["-p", text(draw, choice(p).map(lambda v, n=p.name: f"{n}={v}"))]
    return found + (found[-2:] if rarely(draw, 40) else [])


@st.composite
def forms(draw: st.DrawFn) -> list[str]:
    """Options of what is multiplied beside its size."""
    offered = {
        "--layout": st.sampled_from(LAYOUTS),
        "--batch-size": st.one_of(st.integers(1, 64), st.just(2**31 - 1)),
        "--dtype-b": st.sampled_from(["int8", "fp8", "bf16"]),
        "--epilogue": st.lists(st.sampled_from(EPILOGUES), min_size=1, max_size=3).map(",".join),
    }
    found = ["--beta"] if rarely(draw, 6) else []
    for option, good in offered.items():
        found += [option, text(draw, good)] if rarely(draw, 5) else []
    return found


@st.composite
def models(draw: st.DrawFn, form: bool = True) -> tuple[list[str], str]:
    """M N K and the options of a prediction, and the family."""
    family, dtype = draw(kernels())
    able = [name for name in GPUS if dtype in load_gpu(name).arch.fma_per_clk_per_sm]
    gpu = text(draw, gpus if rarely(draw, 4) else st.sampled_from(able))
    found = [text(draw, sizes, 60) for _ in range(2 if rarely(draw, 60) else 3)]
    found += ["--gpu", gpu, "--family", text(draw, st.just(family), 40), "--dtype", text(draw, st.just(dtype), 40)]
    if draw(st.booleans()):
        found += ["--l2", text(draw, st.sampled_from(L2_CONDITIONS))]
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2, 16]))):
        found += ["--without", text(draw, st.sampled_from(TERMS))]
    if rarely(draw, 6):
        found += ["--num-sms", text(draw, st.integers(1, 132))]
    if rarely(draw, 6):
        found += ["--calibration", text(draw, st.sampled_from(["none", "auto"]), 4)]
    if form and draw(st.booleans()):
        found += draw(forms())
    if rarely(draw, 30):
        found += draw(st.sampled_from([["--no-facts"], ["--colour", "red"], ["--gpu", gpu], ["--gpu"], ["-x"]]))
    return found, family


@st.composite
def outputs(draw: st.DrawFn, formats: Sequence[str] = ("table", "json", "csv")) -> list[str]:
    found = ["--format", text(draw, st.sampled_from(formats), 40)]
    return [*found, "--out", text(draw, st.just("out.txt"), 4)] if rarely(draw, 4) else found


def answer_text(found: Answer) -> str:
    """What was printed, to stdout or into the one file."""
    return found.out or "".join(data.decode() for data in found.files.values())


def no_odd_number(found: Answer) -> None:
    words = answer_text(found).replace(",", " ").split()
    assert not {"nan", "inf", "-inf", "NaN", "None"} & set(words), answer_text(found)


# ------------------------------------------------------------------------------------------------ command lines


@examples(400)
@given(st.data())
def test_predict(data: st.DataObject) -> None:
    asked, family = data.draw(models())
    arguments = ["predict", *asked, *data.draw(parameters(family)), *data.draw(outputs())]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        right(strict(answer_text(found)), "--without" in arguments)
    elif found.code == 0:
        no_odd_number(found)


@examples(150)
@given(st.data())
def test_explain(data: st.DataObject) -> None:
    asked, family = data.draw(models())
    arguments = ["explain", *asked, *data.draw(parameters(family)), *data.draw(outputs())]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        document = strict(answer_text(found))
        assert all(value >= 0 for value in numbers(document["terms"]))
    elif found.code == 0:
        no_odd_number(found)


@examples(60)
@given(st.data())
def test_rank(data: st.DataObject) -> None:
    asked, _ = data.draw(models())
    top = text(data.draw, st.sampled_from([1, 3, 5]), 10)
    found = run(["rank", *asked, "--top", top, *data.draw(outputs())])
    if found.code == 0 and "json" in asked:
        document = strict(answer_text(found))
        times = [entry["time_s"] for entry in document["ranking"]]
        assert times == sorted(times)
        assert all(value >= 0 for value in numbers(document["ranking"]))
        assert all(e["time_lo_s"] <= e["time_s"] <= e["time_hi_s"] for e in document["ranking"])
    elif found.code == 0:
        no_odd_number(found)


def placed(data: st.DataObject) -> tuple[list[str], str]:
    """The same for verbs that have no --without."""
    asked, family = data.draw(models())
    while "--without" in asked:
        del asked[asked.index("--without") : asked.index("--without") + 2]
    return asked, family


@examples(60)
@given(st.data())
def test_simulate(data: st.DataObject) -> None:
    asked, family = placed(data)
    arguments = ["simulate", *asked, *data.draw(parameters(family)), *data.draw(outputs())]
    for option, good in {
        "--raster": st.sampled_from(RASTERS),
        "--cluster": st.sampled_from(["1x1", "2x1", "4x4"]),
    }.items():
        arguments += [option, text(data.draw, good)] if rarely(data.draw, 4) else []
    arguments += [flag for flag in ("--persistent", "--profiled") if rarely(data.draw, 4)]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        record = strict(answer_text(found))
        assert all(value >= 0 for value in numbers(record))
        assert record["l2_hit_rate"] <= 1
        assert not record["simulated"] or record["dram_read_bytes"] >= record["operand_bytes"] * (1 - 1e-9)
    elif found.code == 0:
        no_odd_number(found)


@examples(40)
@given(st.data())
def test_raster(data: st.DataObject) -> None:
    asked, family = placed(data)
    arguments = ["raster", *asked, *data.draw(parameters(family)), *data.draw(outputs())]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        document = strict(answer_text(found))
        times = [order["time_s"] for order in document["orders"]]
        assert times == sorted(times)
        assert all(value >= 0 for value in numbers(document["orders"]))
        assert [order["own"] for order in document["orders"]].count(True) == 1
    elif found.code == 0:
        no_odd_number(found)


@examples(40)
@given(st.data())
def test_pad(data: st.DataObject) -> None:
    asked, _ = placed(data)
    arguments = ["pad", *asked, *data.draw(outputs())]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        document = strict(answer_text(found))
        assert all(c["time_s"] > 0 and c["time_lo_s"] <= c["time_hi_s"] for c in document["candidates"])
        assert document["best"] is None or document["best"] in document["candidates"]
    elif found.code == 0:
        no_odd_number(found)


FIGURES = ("dram_bytes_per_s", "sm_count", "l2_bytes", "clock_hz", "tdp_w", "launch_s", "arch.regs_per_sm", "bogus")


@examples(40)
@given(st.data())
def test_compare(data: st.DataObject) -> None:
    size = data.draw(st.lists(st.sampled_from(("1", "64", "4096", "50257", "0", "x")), min_size=2, max_size=4))
    gpus = data.draw(st.lists(st.sampled_from(("h200_sxm", "a100_sxm_80gb", "t4", "h200_sxm:1g.18gb", "none")),
                              min_size=1, max_size=3))  # fmt: skip
    figure = data.draw(st.sampled_from(FIGURES))
    value = data.draw(st.sampled_from(("1", "96", "6e12", "2e9", "x", "nan")))
    more = data.draw(st.sampled_from(((), ("--set", f"{figure}={value}"), ("--sensitivity",), ("--family", "all"))))
    arguments = ["compare", *size, "--gpus", ",".join(gpus), *more, *data.draw(outputs())]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        document = strict(answer_text(found))
        for row in document["gpus"]:
            assert 0 < row["time_lo_s"] <= row["time_s"] <= row["time_hi_s"]
        for gain in document["speedups"]:
            assert math.isclose(math.prod(r["factor"] for r in gain["reasons"]), gain["ratio"], rel_tol=1e-9)
    elif found.code == 0:
        no_odd_number(found)


@examples(60)
@given(st.data())
def test_split(data: st.DataObject) -> None:
    asked, family = placed(data)
    arguments = ["split", *asked, *data.draw(parameters(family)), *data.draw(outputs())]
    found = run(arguments)
    if found.code == 0 and arguments[arguments.index("--format") + 1] == "json":
        document = strict(answer_text(found))
        times = [way["time_s"] for way in document["ways"]]
        assert times == sorted(times)
        assert all(value >= 0 for value in numbers(document["ways"]))
    elif found.code == 0:
        no_odd_number(found)


@examples(250)
@given(st.data())
def test_occupancy(data: st.DataObject) -> None:
    draw, arguments = data.draw, ["occupancy"]
    offered = {
        "--gpu": gpus, "--threads": st.integers(1, 1100), "--regs": st.integers(1, 260),
        "--smem": st.integers(0, 240_000), "--blocks": st.integers(1, 34),
    }  # fmt: skip
    left_out = {"--blocks"} if draw(st.booleans()) else {"--regs", "--smem"}
    for option, good in offered.items():
        if (option in left_out) == rarely(draw, 15):
            arguments += [option, text(draw, good)]
    found = run([*arguments, *draw(outputs())])
    if found.code == 0:
        no_odd_number(found)
        if answer_text(found).startswith(("{", "[")):
            assert all(value >= 0 for value in numbers(strict(answer_text(found))))


@examples(100)
@given(st.data())
def test_specs(data: st.DataObject) -> None:
    draw = data.draw
    verb = text(draw, st.sampled_from(["list", "show", "compare", "check"]))
    names = [text(draw, gpus, 8) for _ in range({"list": 0, "show": 1}.get(verb, 2))]
    if verb == "check":
        names = [str(data_folder("hwspecs") / f"{name}.yaml") if name in GPUS else name for name in names]
    found = run(["specs", verb, *names, *draw(outputs())])
    if found.code == 0 and answer_text(found).startswith(("{", "[")):
        strict(answer_text(found))


# ------------------------------------------------------------------------------------------------ batches


@dataclass(frozen=True)
class Sheet:
    """A CSV as it was meant."""

    header: list[str]
    rows: list[list[str]]
    data: bytes
    name: str


SPELLED = {"m": ["m", "m", "M"], "bm": ["bm", "BLOCK_SIZE_M"], "num_warps": ["num_warps", "warps"]}
NUMBERED = ("64", "64.0", " 64 ", "6.4e1", "+64")
FACTS = {
    "regs": st.integers(1, 255), "regs_per_thread": st.integers(1, 255), "spills": st.integers(0, 50),
    "spill_bytes": st.integers(0, 400), "smem_bytes": st.integers(0, 227 * 1024),
}  # fmt: skip
EXTRA = ("time_s", "in_time_s", "in_in_time_s", "feasible", "waves", "note", "", " m", "Größe", 'a"b', "a,b", "note\n2")
odd_cells = st.one_of(
    nonsense,
    st.sampled_from(["nan", "-nan", "inf", "-5", "1e300", "1e400", "1e-400", "0", "\x00", "a\x00.yaml", "1,5"]),
)


@st.composite
def cells(draw: st.DrawFn, columns: dict[str, st.SearchStrategy[Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows; half of the sheets hold no odd cell."""
    header = [draw(st.sampled_from(SPELLED.get(name, [name]))) for name in columns]
    rows = [[str(draw(good)) for good in columns.values()] for _ in range(draw(st.integers(1, 5)))]
    if rarely(draw, 3):
        place = draw(st.tuples(st.integers(0, len(rows) - 1), st.integers(0, len(header) - 1)))
        rows[place[0]][place[1]] = draw(odd_cells)
    if rarely(draw, 12):
        header[draw(st.integers(0, len(header) - 1))] = draw(st.sampled_from(header))
    if rarely(draw, 25):
        header = header[1:]
    if rarely(draw, 25):
        del rows[-1][0]
    return header, rows


@st.composite
def sheets(draw: st.DrawFn, columns: dict[str, st.SearchStrategy[Any]]) -> Sheet:
    """A CSV in one of the ways that CSVs are written, now and then broken."""
    header, rows = draw(cells(columns))
    buffer = io.StringIO()
    style: dict[str, Any] = {"lineterminator": draw(st.sampled_from(["\n", "\r\n"]))}
    csv.writer(buffer, quoting=draw(st.sampled_from([0, 1])), **style).writerows([header, *rows])
    written = buffer.getvalue().replace("\udcff", "?") + draw(st.sampled_from(["", "", "\n", "\n\n"]))
    data = written.encode(draw(st.sampled_from(["utf-8", "utf-8-sig"])))
    if rarely(draw, 20):
        data = draw(
            st.sampled_from([b"", b"\n", data[: len(data) // 2], data + b"\xff", written.encode("utf-16"), b'"'])
        )
    name = "in.csv.gz" if rarely(draw, 6) else "in.csv"
    if name.endswith("gz"):
        data = gzip.compress(data, mtime=0)
        data = draw(st.sampled_from([b"", data[:-4], b"no gzip"])) if rarely(draw, 6) else data
    return Sheet(header, rows, data, name)


def table_of(data: bytes) -> tuple[list[str], list[list[str]]]:
    header, *rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    return header, [row for row in rows if row]


def as_given(sheet: Sheet, results: Sequence[str], out: bytes) -> list[dict[str, str]]:
    """The rows of an answer, each beginning with the input's row as it was."""
    data = gzip.decompress(sheet.data) if sheet.name.endswith("gz") else sheet.data
    given_header, given_rows = table_of(data)
    header, rows = table_of(out)
    assert header == [*out_names(given_header, results).values(), *results]
    assert [row[: len(given_header)] for row in rows] == given_rows
    return [dict(zip(results, row[len(given_header) :], strict=True)) for row in rows]


def given_columns(draw: st.DrawFn, family: str, dtype: str) -> dict[str, st.SearchStrategy[Any]]:
    """Columns of a batch, each with what may stand in it."""
    columns: dict[str, st.SearchStrategy[Any]] = {name: st.one_of(sizes, st.sampled_from(NUMBERED)) for name in "mnk"}
    columns |= {
        p.name: choice(p) for p in families.family(family).PARAMETERS if p.name[0] == "b" or draw(st.booleans())
    }
    columns |= {name: st.one_of(good, st.just("")) for name, good in FACTS.items() if rarely(draw, 4)}
    other: dict[str, st.SearchStrategy[Any]] = {
        "gpu": st.sampled_from(["h200_sxm", "a100_sxm_80gb", "t4", ""]), "family": st.sampled_from([family, ""]),
        "dtype": st.sampled_from([dtype, ""]), "l2": st.sampled_from([*L2_CONDITIONS, ""]),
        "dtype_b": st.sampled_from(["", dtype]), "dtype_c": st.sampled_from(["", "", "bf16", "fp32"]),
        "layout": st.sampled_from(["", "NN", "NT"]),
        "batch": st.sampled_from(["", "1", "1", "3"]), "beta": st.sampled_from(["", "0", "0", "1"]),
        "epilogue": st.sampled_from(["", "", "bias", "bias,gelu"]),
    }  # fmt: skip
    assert set(other) == {*OVERRIDES, *FORM}
    columns |= {name: good for name, good in other.items() if rarely(draw, 5)}
    columns |= {name: nonsense for name in EXTRA if rarely(draw, 8)}
    return dict(draw(st.permutations(list(columns.items()))))


@examples(500)
@given(st.data())
def test_predict_of_a_batch(data: st.DataObject) -> None:
    draw = data.draw
    family, dtype = draw(st.sampled_from(KERNELS))
    sheet = draw(sheets(given_columns(draw, family, dtype)))
    Path(sheet.name).write_bytes(sheet.data)
    arguments = ["predict", "--batch", sheet.name, "--gpu", "h200_sxm", "--family", family, "--dtype", dtype]
    terms = draw(st.booleans())
    arguments += [] if terms else ["--no-terms"]
    arguments += draw(st.sampled_from([[], [], ["--no-facts"], ["--l2", "warm"], ["--num-sms", "40"]]))
    found = run([*arguments, "--out", "out.csv"] if draw(st.booleans()) else arguments)
    if found.code == 0:
        results = result_names(terms)
        out = found.files.get("out.csv", found.out.encode())
        for row in as_given(sheet, results, out):
            feasible(row) if row["feasible"] == "1" else refused(row)
    else:
        assert sheet.name in found.err
    clear()


def feasible(row: dict[str, str]) -> None:
    assert row["feasible"] == "1"
    assert not row["reason"]
    values = {key: float(row[key]) for key in row if key.endswith(("_s", "_bytes", "tflops", "waves", "per_sm"))}
    assert all(math.isfinite(v) and v >= 0 for v in values.values())
    assert 0 < values["time_lo_s"] <= values["time_s"] <= values["time_hi_s"]
    assert row["bound_by"] in TERMS


def refused(row: dict[str, str]) -> None:
    assert row["feasible"] == "0"
    assert row["reason"]
    assert not any(row[key] for key in row if key not in ("feasible", "reason", "calibration"))


@examples(150)
@given(st.data())
def test_occupancy_of_a_batch(data: st.DataObject) -> None:
    columns: dict[str, st.SearchStrategy[Any]] = {
        "gpu": st.sampled_from(["h200_sxm", "t4"]), "threads": st.integers(1, 1100), "regs": st.integers(1, 260),
        "smem_bytes": st.integers(0, 240_000), "limited_by": st.just("x"),
    }  # fmt: skip
    sheet = data.draw(sheets(columns))
    Path(sheet.name).write_bytes(sheet.data)
    found = run(["occupancy", "--batch", sheet.name, "--gpu", "l4"])
    if found.code == 0:
        rows = as_given(sheet, ("blocks_per_sm", "limited_by"), found.out.encode())
        assert all(0 <= int(row["blocks_per_sm"]) <= 32 for row in rows)
    else:
        assert sheet.name in found.err
    clear()


# ------------------------------------------------------------------------------------------------ files

odd_values: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "text", "1e9", True, -1, 0, 1, 1e9, 1e300, -1e-9, math.nan, math.inf, [], [1], [2, 1], {}, {"a": 1},
     "2026-13-45", 2**70, [["x"]], ".nan", "bf16", ["bf16", "bf16"], "h200_sxm"]
)  # fmt: skip


def mutate(draw: st.DrawFn, tree: Any) -> None:
    """One key of a document dropped, doubled in value or size, renamed, or given another value, wherever it stands."""
    places = list(branches(tree))
    inside, key = draw(st.sampled_from(places))
    value = inside[key]
    how = draw(st.integers(1, 5))
    if how == 1:
        del inside[key]
    elif how == 2 and isinstance(inside, dict):
        inside[draw(st.sampled_from(["x", 1, "", "é", f"{key}s"]))] = inside.pop(key)
    elif how == 3 and isinstance(value, int | float):
        inside[key] = value * draw(st.sampled_from([-1, 1e-6, 1e-3, 0.5, 3, 1e3, 1e6, 1e20]))
    else:
        inside[key] = copy.deepcopy(draw(odd_values))  # one that is changed later is no other's


def branches(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from branches(tree[key])


def spoilt(draw: st.DrawFn, tree: Any) -> bytes:
    """A document in YAML after some mutations, now and then with bytes of its text lost or changed."""
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        if tree:
            mutate(draw, tree)
    data = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).encode()
    if rarely(draw, 6) and data:
        at = draw(st.integers(0, len(data) - 1))
        data = (
            data[:at]
            + draw(st.sampled_from([b"", b"\xff", b"\t", b"[", b"\n\n", b": ", b"&a ", b"*a", b"\x00"]))
            + data[at + 1 :]
        )
    return data


CALIBRATIONS = sorted((data_folder("hwspecs") / "calibration").glob("*.yaml"))


@examples(250)
@given(st.data())
def test_a_calibration_file(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(CALIBRATIONS))
    family = path.name.split(".")[1]
    dtype = families.family(family).DTYPES[0]
    sizes = ("128", "4096") if family == "wgmma" else ("1", "100", "4096")  # rows of 16 bytes
    Path("fit.yaml").write_bytes(spoilt(data.draw, yaml.safe_load(path.read_text())))
    size = data.draw(st.sampled_from(sizes))
    found = run(["predict", size, size, "64", "--gpu", "h200_sxm", "--family", family, "--dtype", dtype,
                 "--calibration", "fit.yaml", "--format", "json"])  # fmt: skip
    if found.code == 0:
        right(strict(found.out), False)
    else:
        assert "fit.yaml" in found.err
    clear()


STUDY = {
    "title": "A study", "question": "Which?", "workload": {"shapes": [{"name": "a", "m": 64, "n": 64, "k": 64}]},
    "gpus": ["h200_sxm", "t4"], "families": ["naive"], "dtypes": ["fp32"], "top": 2, "l2": "cold_clean",
    "vary": {"naive": {"bm": [1, 8], "bn": [32]}}, "measure": "recorded",
}  # fmt: skip
WORKLOAD = {"config": "config.json", "tokens": {"prefill": 128, "decode": 1}}
CONFIG = {
    "model_type": "qwen2_moe", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 100,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 32, "sliding_window": 32,
    "use_sliding_window": True, "max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention"],
    "mlp_only_layers": [0], "decoder_sparse_step": 1, "tie_word_embeddings": True,
}  # fmt: skip


@examples(150)
@given(st.data())
def test_a_study_file(data: st.DataObject) -> None:
    tree = json.loads(json.dumps(STUDY))
    if data.draw(st.booleans()):
        tree |= {"workload": json.loads(json.dumps(WORKLOAD))}
        Path("config.json").write_text(json.dumps(CONFIG))
    Path("asked.yaml").write_bytes(spoilt(data.draw, tree))
    found = run(["study", "run", "asked.yaml", "--dry-run", "--format", "json"])
    if found.code == 0:
        assert all(value >= 0 for value in numbers(strict(found.out)))
    else:
        assert "asked.yaml" in found.err
    clear()


@examples(150)
@given(st.data())
def test_a_config_of_a_model(data: st.DataObject) -> None:
    tree = json.loads(json.dumps(CONFIG))
    tree["model_type"] = data.draw(st.sampled_from(["qwen2_moe", "qwen2_moe", "llama", "mistral", "qwen2", "gpt_neox"]))
    for _ in range(data.draw(st.sampled_from([0, 1, 1, 2]))):
        mutate(data.draw, tree)
    Path("config.json").write_text(json.dumps(tree))
    asked = ["workload", "config.json", "--tokens", data.draw(st.sampled_from(["1", "7", "2048"])), "--phase", "both"]
    found = run([*asked, "--tp", data.draw(st.sampled_from(["1", "2", "3"])), "--format", "json"])
    if found.code == 0:
        assert all(value >= 0 for value in numbers(strict(found.out)))
    else:
        assert "config.json" in found.err
    clear()


@examples(6)
@given(st.data())
def test_a_study_with_its_page(data: st.DataObject) -> None:
    tree = json.loads(json.dumps(STUDY))
    tree["workload"]["shapes"][0] |= {d: data.draw(sizes) for d in "mnk"}
    Path("asked.yaml").write_bytes(spoilt(data.draw, tree))
    found = run(["study", "run", "asked.yaml", "--format", "json", "--out", "page"])
    if found.code == 0:
        assert all(value >= 0 for value in numbers(strict(found.out)) if value == value)
        assert {"page/picks.csv", "page/report.html"} <= set(found.files)
    clear()


SHIPPED = {
    name: table_of(gzip.decompress((data_folder("studies") / "h200" / f"{name}.csv.gz").read_bytes()))
    for name in ("triton_bf16", "register_tile_fp32", "naive_fp32", "smem_tile_fp32")
}


def measured(draw: st.DrawFn, rows: int) -> None:
    """rows.csv: some rows that were recorded, now and then with other cells."""
    header, recorded = SHIPPED[draw(st.sampled_from(sorted(SHIPPED)))]
    start = draw(st.integers(0, len(recorded) - rows))
    header, chosen = list(header), [list(row) for row in recorded[start : start + rows]]
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        chosen[draw(st.integers(0, rows - 1))][draw(st.integers(0, len(header) - 1))] = draw(odd_cells)
    if rarely(draw, 8):
        header[draw(st.integers(0, len(header) - 1))] = draw(st.sampled_from([*header, "x", ""]))
    with open("rows.csv", "w", newline="", encoding="utf-8", errors="replace") as file:
        csv.writer(file).writerows([header, *chosen])


@examples(120)
@given(st.data())
def test_validate(data: st.DataObject) -> None:
    draw = data.draw
    measured(draw, draw(st.sampled_from([1, 2, 9])))
    arguments = ["validate", "--rows", "rows.csv", "--format", "json"]
    arguments += draw(st.sampled_from([[], [], ["--no-facts"], ["--plain"], ["--without", "dram"],
        ["--calibration", "none"], ["--gpu", "t4"],
        ["--split", "shape"], ["--sample", "3"], ["--split", ""], ["--seeds", "0"], ["--fit-with", "rows.csv"],
        ["--rows", "rows.csv"], ["--split", "config", "--fit-with", "rows.csv", "--seeds", "1"]]))  # fmt: skip
    found = run(arguments)
    if found.code == 0:
        assert all(value >= -100 for value in numbers(strict(found.out)))  # a bias may be negative
    else:
        assert "rows" in found.err or "--" in found.err
    clear()


@examples(40)
@given(st.data())
def test_calibrate(data: st.DataObject) -> None:
    draw = data.draw
    measured(draw, draw(st.sampled_from([1, 5, 20])))
    arguments = ["calibrate", "--rows", "rows.csv", "--seeds", text(draw, st.integers(0, 3), 6), "--out", "fit.yaml"]
    assert run(arguments).code in (0, 2)  # 20 rows are enough for a family of six coefficients
    clear()


# ------------------------------------------------------------------------------------------------ from Python

values = st.one_of(
    st.integers(-5, 300), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.none(), st.booleans(),
    st.lists(st.one_of(st.integers(-1, 200), st.floats(), st.text(max_size=2)), max_size=3),
)  # fmt: skip
one_or_two = st.one_of(sizes, st.lists(sizes, min_size=1, max_size=2))


@examples(200)
@given(st.data())
def test_predict_from_python(data: st.DataObject) -> None:
    draw = data.draw
    m, n, k = (draw(values) if rarely(draw, 8) else draw(one_or_two) for _ in "mnk")
    names = st.sampled_from(["regs_per_thread", "spill_bytes", "smem_bytes", "x"])
    facts = draw(st.dictionaries(names, st.one_of(st.integers(1, 255), st.just(math.nan), values), max_size=2))
    config = draw(
        st.dictionaries(
            st.sampled_from(["bm", "bn", "num_warps"]), st.one_of(st.sampled_from([16, 64]), values), max_size=2
        )
    )
    try:
        p = predict(
            m,
            n,
            k,
            gpu="h200_sxm",
            facts=facts,
            config=config,
            num_sms=draw(st.sampled_from([None, None, 1, 132, 0, 999])),
            terms=True,
        )
    except GemmsimError:
        return
    low, high = p.interval_s
    good = p.feasible
    for column in (p.time_s, low, high, *p.demand.values(), *p.saved.values()):
        assert np.all(np.isfinite(column[good]))
        assert np.all(column[good] >= 0)
    assert np.all((low <= p.time_s) & (p.time_s <= high) | ~good)
