"""What starting up costs: importing gemmsim loads nothing heavy, and a prediction loads no fitting or drawing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gemmsim

ROOT = Path(gemmsim.__file__).parents[1]
LATE = ("numpy", "scipy", "pydantic", "yaml", "altair", "optuna", "matplotlib", "pandas")
#: what only compiling and measuring need
BENCH = {"cupy", "cuda", "triton", "sqlalchemy", "pynvml"}


def loaded(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after the code."""
    text = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}\nimport json\n"
    text += "sys.stderr.write(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(json.loads(found.stderr))


def test_importing_gemmsim_loads_nothing() -> None:
    assert not loaded("import gemmsim") & {*LATE, *BENCH}


@pytest.mark.parametrize("arguments", [["predict", "4096", "4096", "4096"], ["rank", "64", "64", "64"],
                                       ["predict", "64", "64", "64", "--family", "simt"],
                                       ["split", "64", "64", "64"], ["simulate", "64", "64", "64"],
                                       ["raster", "64", "64", "64"], ["pad", "64", "64", "64"]])  # fmt: skip
def test_a_prediction_loads_no_scipy(arguments: list[str]) -> None:
    code = (
        f"from gemmsim.cli import main\ntry:\n    main({[*arguments, '--gpu', 'h200_sxm']!r})\nexcept SystemExit: pass"
    )
    assert not loaded(code) & {"scipy", "altair", "optuna", "matplotlib", "pandas", "jinja2", *BENCH}


@pytest.mark.parametrize("verb", ["compile", "measure", "rows", "doctor", "probe", "counters", "best", "export"])
def test_the_help_of_what_needs_a_gpu_loads_nothing_of_it(verb: str) -> None:
    code = f"from gemmsim.cli import main\ntry:\n    main(['{verb}', '--help'])\nexcept SystemExit: pass"
    assert not loaded(code) & {"scipy", "altair", *BENCH}


def test_a_pick_from_a_csv_loads_no_database() -> None:
    rows = ROOT / "studies" / "h200" / "triton_bf16.csv.gz"
    arguments = ["best", "64", "64", "64", "--rows", str(rows)]
    code = f"from gemmsim.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit: pass"
    assert not loaded(code) & {"scipy", "altair", "optuna", *BENCH}


@pytest.mark.parametrize("verb", ["tune", "worker"])
def test_the_help_of_tuning_loads_no_tuner(verb: str) -> None:
    code = f"from gemmsim.cli import main\ntry:\n    main(['{verb}', '--help'])\nexcept SystemExit: pass"
    assert not loaded(code) & {"optuna", "scipy", "altair", *BENCH}


def test_the_gemms_of_a_model_load_no_model_of_a_gpu() -> None:
    arguments = ["workload", str(ROOT / "studies" / "llama2_7b.json"), "--tokens", "8"]
    code = (
        f"from gemmsim.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.startswith(('gemmsim.model', 'gemmsim.study'))]"
    )
    assert not loaded(code) & {"scipy", "pydantic", "altair", "optuna", *BENCH}


def test_a_comparison_loads_no_scipy_and_no_charts() -> None:
    arguments = ["compare", "64", "64", "64", "--gpus", "h100_sxm,h200_sxm", "--sensitivity"]
    code = f"from gemmsim.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit: pass"
    assert not loaded(code) & {"scipy", "altair", "optuna", "jinja2", *BENCH}


def test_a_prediction_loads_no_comparison() -> None:
    code = (
        "from gemmsim.cli import main\ntry:\n    main(['predict', '64', '64', '64', '--gpu', 'h200_sxm'])\n"
        "except SystemExit: pass\n"
        "late = ('gemmsim.comparison', 'gemmsim.padding', 'gemmsim.whatif')\n"
        "assert not [name for name in sys.modules if name.startswith(late)]"
    )
    assert "numpy" in loaded(code)


def test_a_prediction_loads_no_workload() -> None:
    code = (
        "from gemmsim.cli import main\ntry:\n    main(['predict', '64', '64', '64', '--gpu', 'h200_sxm'])\n"
        "except SystemExit: pass\nassert not [name for name in sys.modules if 'workload' in name]"
    )
    assert "numpy" in loaded(code)


def test_a_prediction_loads_no_simulator() -> None:
    code = (
        "from gemmsim.cli import main\ntry:\n    main(['predict', '64', '64', '64', '--gpu', 'h200_sxm'])\n"
        "except SystemExit: pass\nassert not [name for name in sys.modules if name.startswith('gemmsim.simulate')]"
    )
    assert "numpy" in loaded(code)


def test_predict_as_a_function_loads_no_scipy() -> None:
    code = "import gemmsim\ngemmsim.predict(64, 64, 64, gpu='a100_sxm_80gb')"
    found = loaded(code)
    assert "numpy" in found
    assert not found & {"scipy", "altair", "cupy", "optuna"}


def test_a_search_space_loads_no_optuna() -> None:
    space = (
        "from gemmsim.search.space import space_of\nspace_of(64, 64, 64, gpu='h200_sxm', family='naive', dtype='fp32')"
    )
    assert not loaded(space) & {"optuna", "scipy"}
    assert "optuna" in loaded("import gemmsim.search.loop")


def test_names_are_public_and_unknown_ones_are_none() -> None:
    assert {"predict", "rank", "explain", "compare", "pad", "gemm", "load_gpu", "GemmsimError"} <= set(gemmsim.__all__)
    for name in gemmsim.__all__:
        assert getattr(gemmsim, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'simulation'"):
        gemmsim.simulation  # noqa: B018
