"""`gemmsim calibrate` from rows to a file that the model reads."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gemmsim import predict
from gemmsim.cli import main
from gemmsim.model import calibration

ROWS = Path(__file__).parents[2] / "studies" / "h200" / "register_tile_fp32.csv.gz"
KERNEL = Path(__file__).parents[2] / "kernels" / "register_tile.cu"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["calibrate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every fourth row of the shipped ones."""
    head, *lines = gzip.decompress(ROWS.read_bytes()).decode().splitlines()
    path = tmp_path_factory.mktemp("rows") / "some.csv"
    path.write_text("\n".join([head, *lines[::4]]) + "\n")
    return path


def test_the_file_says_what_it_rests_on_and_is_read_back(
    some: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        code, out, _ = run(capsys, "--rows", some, "--kernel", KERNEL, "--seeds", 1, "--out", path)
        assert (code, out) == (0, "")
    text = paths[0].read_text()
    assert text == paths[1].read_text()
    for line in ("gpu: h200_sxm", "family: register_tile", "dtypes: [fp32]", "rows: 293", "l2: cold_dirty",
                 "some.csv sha256:", "register_tile.cu sha256:", "held_out"):  # fmt: skip
        assert line in text
    found = calibration.load(paths[0], "register_tile")
    assert found.fitted
    assert found.name == "a.yaml"
    assert found.ranges["bk"] == (8, 32)
    asked = {"gpu": "h200_sxm", "dtype": "fp32", "family": "register_tile"}
    own = predict(4096, 4096, 4096, **asked, calibrated=str(paths[0]))
    assert own.calibration.name == "a.yaml"
    assert own.time_s[0] == pytest.approx(predict(4096, 4096, 4096, **asked).time_s[0], rel=0.1)


def test_to_stdout(some: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--rows", some, "--seeds", 0)
    assert code == 0
    assert out.startswith("# Fitted by `gemmsim calibrate`")
    assert "  chain_clk: " in out


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ("few", (), "need 21 or more"),
        ("gpu", (), "column gpu holds h200_sxm, h100_sxm"),
        ("l2", (), "column l2 holds cold_dirty, warm"),
        ("", ("--gpu", "h100_sxm"), "--gpu says h100_sxm"),
        ("", ("--rows", "none.csv"), "none.csv"),
        ("", ("--kernel", "none.cu"), "none.cu: No such file"),
        ("", ("--out", "no_folder/x.yaml"), "no_folder"),
        ("", ("--seeds", "-1"), "--seeds"),
        ("time", (), "row 4 (line 5), column median_s is 0: expected seconds, from"),
    ],
)
def test_wrong_input_is_one_sentence_and_leaves_no_file(
    some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    change: str, options: tuple[str, ...], says: str,
) -> None:  # fmt: skip
    head, *lines = some.read_text().splitlines()
    if change == "few":
        lines = lines[:20]
    elif change == "time":
        cells = dict(zip(head.split(","), lines[3].split(","), strict=True)) | {"median_s": "0"}
        lines[3] = ",".join(cells.values())
    elif change:
        old, new = {"gpu": ("h200_sxm", "h100_sxm"), "l2": ("cold_dirty", "warm")}[change]
        lines[-1] = lines[-1].replace(old, new)
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("\n".join([head, *lines]) + "\n")
    out = () if "--out" in options else ("--out", "x.yaml")
    code, printed, err = run(capsys, "--rows", "rows.csv", *out, *options)
    assert (code, printed) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.csv"]
