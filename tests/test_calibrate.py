"""Fitting: known coefficients are found again, too few rows are refused, halves are halves, files are read strictly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmsim import families
from gemmsim.calibrate import ROWS_PER_COEFFICIENT, fit, halves, predicted_s
from gemmsim.errors import GemmsimError
from gemmsim.families.traits import Prior
from gemmsim.hardware import load_gpu
from gemmsim.measured import Measured, read_measured
from gemmsim.model import calibration
from gemmsim.model.coefficients import COEFFICIENTS, complete

ROWS = Path(__file__).parents[1] / "studies" / "h200"
SHIPPED = Path(load_gpu("h200_sxm").path).parent / "calibration"
FILES = {"triton": "triton_bf16.csv.gz", "register_tile": "register_tile_fp32.csv.gz"}


def rows_of(family: str, count: int | None = None) -> Measured:
    rows = read_measured(str(ROWS / FILES[family]))
    return rows.take(np.random.default_rng(0).permutation(len(rows))[:count])


def elsewhere(priors: dict[str, Prior]) -> dict[str, float]:
    """Coefficients a quarter of the way from the prior to one of its bounds, in turn low and high."""
    ends = [p.high if i % 2 else p.low for i, p in enumerate(priors.values())]
    return {name: p.value * (end / p.value) ** 0.25 for (name, p), end in zip(priors.items(), ends, strict=True)}


@pytest.mark.parametrize(
    ("family", "count", "certain"),
    [
        ("register_tile", 300, ("dram_latency", "barrier_clk", "chain_clk", "queue_noise", "spill_clk")),
        ("triton", 300, ("arrival", "spill_clk", "shared_near", "memory_sharpness")),
    ],
)
def test_known_coefficients_are_found_again(family: str, count: int, certain: tuple[str, ...]) -> None:
    """Times made by the model. Coefficients that these rows hardly see stay near their prior; times agree."""
    rows, priors = rows_of(family, count), dict(families.family(family).PRIORS)
    true = elsewhere(priors)
    made = replace(rows, time_s=predicted_s(rows, true))
    found = fit(made)
    assert found.converged
    assert found.on_bound == ()
    assert found.rows == count
    assert set(found.values) == set(priors)
    off = np.abs(predicted_s(made, found.values) / made.time_s - 1)
    assert off.mean() < 0.005
    assert off.max() < 0.03
    for name in certain:
        assert found.values[name] == pytest.approx(true[name], rel=0.1), name


def test_a_few_disturbed_rows_do_not_lead_the_fit() -> None:
    rows = rows_of("register_tile", 300)
    true = elsewhere(dict(families.family("register_tile").PRIORS))
    times = predicted_s(rows, true)
    disturbed = np.where(np.arange(len(rows)) % 20 == 0, 4 * times, times)
    found = fit(replace(rows, time_s=disturbed))
    assert np.median(np.abs(predicted_s(rows, found.values) / times - 1)) < 0.03


def test_the_same_rows_give_the_same_coefficients() -> None:
    rows = rows_of("register_tile", 200)
    assert fit(rows) == fit(rows)


def test_a_coefficient_that_ends_on_its_bound_is_named() -> None:
    rows = rows_of("register_tile", 200)
    narrow = {name: Prior(p.value, p.value * 0.98, p.value * 1.02) for name, p in
              families.family("register_tile").PRIORS.items()}  # fmt: skip
    times = predicted_s(rows, {name: p.value * (3 if name == "chain_clk" else 1) for name, p in narrow.items()})
    found = fit(replace(rows, time_s=times), narrow)
    assert "chain_clk" in found.on_bound


@pytest.mark.parametrize("family", FILES)
def test_too_few_rows_say_how_many_are_needed(family: str) -> None:
    coefficients = len(families.family(family).PRIORS)
    need = ROWS_PER_COEFFICIENT * coefficients
    with pytest.raises(GemmsimError, match=rf"{need - 1} rows for the {coefficients} coefficients .* need {need}"):
        fit(rows_of(family, need - 1))


@pytest.mark.parametrize("by", [("config",), ("shape",), ("config", "shape")])
def test_halves_share_no_configuration_and_no_shape(by: tuple[str, ...]) -> None:
    rows = rows_of("register_tile")
    first, second = halves(rows, 3, by)
    again = halves(rows, 3, by)
    assert np.array_equal(first, again[0])
    assert np.array_equal(second, again[1])
    assert not np.array_equal(first, halves(rows, 4, by)[0])
    for which, ids in (("config", rows.configurations), ("shape", rows.shapes)):
        assert bool(set(ids[first]) & set(ids[second])) == (which not in by)
    share = 0.5 ** len(by)
    assert len(first) == pytest.approx(share * len(rows), rel=0.15)
    assert len(second) == pytest.approx(share * len(rows), rel=0.15)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_priors_lie_within_their_bounds_and_name_coefficients(family: str) -> None:
    module = families.family(family)
    assert not set(module.PRIORS) & set(module.FIXED)
    assert set(module.PRIORS) | set(module.FIXED) <= set(COEFFICIENTS)
    for name, prior in module.PRIORS.items():
        assert 0 < prior.low < prior.value < prior.high, name


@pytest.mark.parametrize("family", families.FAMILIES)
def test_shipped_calibrations(family: str) -> None:
    found = calibration.load(SHIPPED / f"h200_sxm.{family}.yaml", family)
    module = families.family(family)
    assert found.fitted
    assert found.dtypes == module.DTYPES[:1]
    assert set(found.values) == set(COEFFICIENTS)
    for name, prior in module.PRIORS.items():
        assert prior.low * 0.999 <= found.values[name] <= prior.high * 1.001, name
    for name, value in module.FIXED.items():
        assert found.values[name] == value
    assert set(found.ranges) == {"m", "n", "k", *(p.name for p in module.PARAMETERS)}
    assert all(0 <= low <= high for low, high in found.ranges.values())


def test_defaults_are_the_priors_and_neutral_elsewhere() -> None:
    found = calibration.defaults("register_tile")
    module = families.family("register_tile")
    assert not found.fitted
    assert found.values == complete({n: p.value for n, p in module.PRIORS.items()} | dict(module.FIXED))
    assert found.values["power"] == 0


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("family: register_tile", "family: triton", "family is 'triton', expected 'register_tile'"),
        ("  chain_clk:", "  chain_clock:", "unknown coefficient 'chain_clock'"),
        ("  chain_clk:", "  # chain_clk:", "coefficients.chain_clk is missing"),
        ("  chain_clk: ", "  chain_clk: fast # ", "coefficients.chain_clk is 'fast', expected a number"),
        ("  chain_clk: ", "  chain_clk: 1e9 # ", "coefficients.chain_clk is '1e9', expected a number"),
        ("  chain_clk: ", "  chain_clk: -1 # ", "coefficients.chain_clk is -1, expected a number"),
        ("  chain_clk: ", "  chain_clk: .nan # ", "coefficients.chain_clk is nan, expected a number"),
        ("  chain_clk: ", "  chain_clk: .inf # ", "coefficients.chain_clk is inf, expected a number"),
        ("  chain_clk: ", "  chain_clk: true # ", "coefficients.chain_clk is True, expected a number"),
        ("  bm: [", "  bm: 5 # [", "range.bm is 5, expected [low, high]"),
        ("dtypes: [fp32]", "dtypes: fp32", "dtypes is 'fp32', expected a list of dtype names"),
        ("coefficients:\n", "coefficients:\n  l2_rate: 0\n", "coefficients.l2_rate is 0, expected a number >= 0.01"),
        (
            "coefficients:\n",
            "coefficients:\n  memory_sharpness: 0.5\n",
            "memory_sharpness is 0.5, expected a number >= 1",
        ),
        ("coefficients:\n", "coefficient:\n", "coefficients is None, expected a mapping"),
        ("range:\n", "ranges:\n", "range is None, expected a mapping"),
    ],
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = (SHIPPED / "h200_sxm.register_tile.yaml").read_text()
    assert old in text
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace(old, new, 1))
    with pytest.raises(GemmsimError) as caught:
        calibration.load(wrong, "register_tile")
    assert says in str(caught.value)
    assert str(wrong) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [", "not valid YAML"),
        (b"a: 2026-13-45", "no valid YAML"),
        (b"\xff\xfe\x00", "expected UTF-8 text"),
        (b"- 1\n", "expected a mapping"),
        (b"", "expected a mapping"),
    ],
)
def test_what_is_no_yaml_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_bytes(content)
    with pytest.raises(GemmsimError, match=says):
        calibration.load(wrong, "triton")
    with pytest.raises(GemmsimError, match=r"none\.yaml: No such file"):
        calibration.load(tmp_path / "none.yaml", "triton")
    with pytest.raises(GemmsimError, match="directory"):
        calibration.load(tmp_path, "triton")
