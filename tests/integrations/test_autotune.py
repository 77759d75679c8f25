"""What Triton's autotuner is left with: by the model, by the kernel's own names, and by Triton's own code."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gemmsim
from gemmsim.errors import GemmsimError
from gemmsim.integrations import autotune
from gemmsim.integrations.triton import perf_model, prune
from gemmsim.measured import read_measured
from gemmsim.problem import Form

GPU = "h200_sxm"
META = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
TILES = (
    (64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (256, 64), (128, 256), (256, 128), (32, 64), (16, 128),
)  # fmt: skip
ROWS = Path(__file__).parents[2] / "studies" / "h200"
TUTORIAL = Path(__file__).parents[1] / "gpu" / "tutorial.py"


@dataclass
class Config:
    """As triton.Config is made."""

    kwargs: dict[str, int]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    ir_override: str | None = field(default=None)


def configurations(make: Any = Config, names: tuple[str, ...] = META) -> list[Any]:
    """180 of them, 36 of which need more shared memory than an H200 has."""
    return [
        make(dict(zip(names, (bm, bn, bk, 8), strict=True)), num_warps=warps, num_stages=stages)
        for (bm, bn), bk, warps, stages in itertools.product(TILES, (32, 64, 128), (4, 8), (3, 4, 5))
    ]


def arguments(
    m: int = 2048, n: int = 4096, k: int = 1024, layout: str = "NN", dtype: str = "bfloat16"
) -> dict[str, Any]:
    """What a launch of the tutorial's kernel passes."""
    tensors = {f"{x}_ptr": SimpleNamespace(dtype=f"torch.{dtype}") for x in "abc"}
    a = (1, m) if layout[0] == "T" else (k, 1)
    b = (1, k) if layout[1] == "T" else (n, 1)
    strides = zip(("stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm"), (*a, *b, n), strict=True)
    return tensors | {"M": m, "N": n, "K": k} | dict(strides)


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    autotune._known.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is asked of the model, call by call."""
    calls: list[dict[str, Any]] = []

    def predict(m: int, n: int, k: int, **options: Any) -> Any:
        calls.append({"sizes": (m, n, k)} | options)
        return gemmsim.predict(m, n, k, **options)

    monkeypatch.setattr(autotune, "predict", predict)
    return calls


def test_what_can_launch_is_left_in_the_users_order() -> None:
    configs, pruner = configurations(), prune(gpu=GPU)
    left = pruner(configs, arguments())
    assert [c for c in configs if any(c is kept for kept in left)] == left
    assert len(left) + len(pruner.dropped) == len(configs)
    assert len(pruner.dropped) == 36
    config, why = pruner.dropped[0]
    assert (config.kwargs["BLOCK_SIZE_M"], config.kwargs["BLOCK_SIZE_N"], config.num_stages) == (64, 128, 5)
    assert why == "smem_capacity: 245760 B of shared memory a block, limit 232448"


def test_the_first_five_are_the_models() -> None:
    configs = configurations()
    left = prune(gpu=GPU, top=5)(configs, arguments())
    terms = ("bm", "bn", "bk", "group_m")
    columns = {term: [c.kwargs[name] for c in configs] for term, name in zip(terms, META, strict=True)}
    columns |= {name: [getattr(c, name) for c in configs] for name in ("num_warps", "num_stages")}
    found = gemmsim.predict(2048, 4096, 1024, gpu=GPU, dtype="bf16", config=columns, l2="cold_dirty")
    order = np.argsort(np.where(found.feasible, found.time_s, np.inf), kind="stable")[:5]
    assert left == [configs[i] for i in order]
    times = [perf_model(gpu=GPU)(**arguments(), **c.kwargs, num_warps=c.num_warps, num_stages=c.num_stages)
             for c in left]  # fmt: skip
    assert times == found.time_s[order].tolist()


def test_a_shortlist_has_each_tile_once_while_there_are_others() -> None:
    """One row of tiles: the raster changes nothing, and its variants would fill the list."""
    configs = [Config(dict(zip(META, (64, 64, bk, group), strict=True))) for group in (1, 4, 8) for bk in (64, 32)]
    left = prune(gpu=GPU, top=3)(configs, arguments(m=64))
    assert [c.kwargs["BLOCK_SIZE_K"] for c in left] == [64, 32, 64]
    assert len(prune(gpu=GPU, top=6)(configs, arguments(m=64))) == 6


def test_all_are_predicted_at_once_and_once(asked: list[dict[str, Any]]) -> None:
    configs, pruner, model = configurations(), prune(gpu=GPU), perf_model(gpu=GPU)
    for _ in range(2):
        left = pruner(configs, arguments())
        for c in left:
            model(**arguments(), **c.kwargs, num_warps=c.num_warps, num_stages=c.num_stages)
    assert [len(call["config"]["bm"]) for call in asked] == [180]
    pruner(configs, arguments(m=1024))
    pruner([*configs, Config(dict(zip(META, (16, 16, 64, 1), strict=True)))], arguments())
    assert [len(call["config"]["bm"]) for call in asked] == [180, 180, 1]


def test_a_configuration_that_cannot_launch_takes_for_ever() -> None:
    huge = dict(zip(META, (256, 256, 256, 8), strict=True))
    assert perf_model(gpu=GPU)(**arguments(), **huge, num_warps=8, num_stages=5) == float("inf")


def test_where_nothing_can_launch_the_list_stays() -> None:
    configs = [Config(dict(zip(META, (256, 256, 256, 8), strict=True)), num_stages=n) for n in (4, 5)]
    with pytest.warns(UserWarning, match=r"none of 2 configurations can launch on h200_sxm .* smem_capacity: .* kept"):
        assert prune(gpu=GPU, top=1)(configs, arguments()) == configs


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_layout_is_that_of_the_strides(layout: str, asked: list[dict[str, Any]]) -> None:
    prune(gpu=GPU, layout="NN")(configurations(), arguments(layout=layout))
    assert asked[0]["dtype"].layout == layout


def test_a_kernel_that_is_passed_one_stride_an_operand(asked: list[dict[str, Any]]) -> None:
    own = {name: value for name, value in arguments().items() if not name.startswith("stride_")}
    pruner = prune(gpu=GPU, names={"stride_am": "lda", "stride_bn": "ldb"})
    pruner(configurations(), own | {"lda": 1024, "ldb": 1024})
    assert asked[0]["dtype"].layout == "NT"


def test_a_layout_that_is_given_where_no_stride_is(asked: list[dict[str, Any]]) -> None:
    own = {name: value for name, value in arguments().items() if not name.startswith("stride_")}
    prune(gpu=GPU, layout="TN")(configurations(), own)
    assert asked[0]["dtype"].layout == "TN"
    with pytest.raises(
        GemmsimError, match=r"^the kernel is passed no stride_am or stride_ak: expected layout=, as 'NN'"
    ):
        prune(gpu=GPU)(configurations(), own)


def test_types_are_those_of_the_tensors(asked: list[dict[str, Any]]) -> None:
    configs = configurations()
    for kind in ("float16", "float32", "bfloat16"):
        prune(gpu=GPU)(configs, arguments(dtype=kind))
    weights = arguments() | {"b_ptr": SimpleNamespace(dtype="torch.float8_e4m3fn")}
    prune(gpu=GPU)(configs, weights | {"c_ptr": SimpleNamespace(dtype="torch.float32")})
    forms = [(f.dtype, f.dtype_b, f.dtype_c) for f in (call["dtype"] for call in asked)]
    assert forms == [
        ("fp16", "fp16", "fp16"), ("tf32", "tf32", "fp32"), ("bf16", "bf16", "bf16"), ("bf16", "fp8", "fp32"),
    ]  # fmt: skip


def test_a_type_or_a_form_that_is_given(asked: list[dict[str, Any]]) -> None:
    configs, bytes_ = configurations(), arguments(dtype="uint8", layout="NT")
    prune(gpu=GPU, dtype="fp8")(configs, bytes_)
    form = Form("fp8", dtype_c="fp16", layout="NN", epilogue=("bias", "relu"))
    prune(gpu=GPU, dtype=form)(configs, bytes_)
    first, second = (call["dtype"] for call in asked)
    assert (first.dtype, first.dtype_b, first.dtype_c, first.layout) == ("fp8", "fp8", "bf16", "NT")
    assert (second.dtype_c, second.layout, second.epilogue) == ("fp16", "NN", ("bias", "relu"))


def test_another_kernels_names(asked: list[dict[str, Any]]) -> None:
    values = arguments()
    called = {"a_ptr": "x", "b_ptr": "w", "c_ptr": "y", "M": "tokens", "N": "features", "K": "hidden"}
    names = {"a": "x", "b": "w", "c": "y", "m": "tokens", "n": "features", "k": "hidden", "bm": "BM", "bn": "BN",
             "bk": "BK", "group_m": 1}  # fmt: skip
    configs = [Config({"BM": 128, "BN": 128, "BK": 64})]
    assert prune(gpu=GPU, names=names)(configs, {called.get(n, n): v for n, v in values.items()}) == configs
    assert asked[0]["sizes"] == (2048, 4096, 1024)
    assert asked[0]["config"]["group_m"] == (1,)


def test_meta_parameters_that_are_passed_at_the_launch(asked: list[dict[str, Any]]) -> None:
    configs = [Config({"BLOCK_M": 128, "BLOCK_N": 128})]
    assert prune(gpu=GPU)(configs, arguments(), BLOCK_K=32, GROUP_M=4) == configs
    assert (asked[0]["config"]["bk"], asked[0]["config"]["group_m"]) == ((32,), (4,))


WHOLE = dict(zip(META, (128, 128, 64, 8), strict=True))


@pytest.mark.parametrize(
    ("options", "config", "changed", "message"),
    [
        ({}, Config(WHOLE | {"SPLIT_K": 4}), {}, "a configuration has the meta-parameter SPLIT_K, which"),
        ({}, Config(WHOLE, num_ctas=2), {}, "a configuration has num_ctas = 2, .* know: expected 1, or num_ctas in"),
        ({}, Config(WHOLE, maxnreg=128), {}, "a configuration has maxnreg = 128, which the model does not know"),
        ({}, Config({"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64}), {},
         "the kernel has no GROUP_SIZE_M or GROUP_M among its arguments and meta-parameters .*names={'group_m': ...}"),
        ({}, Config(WHOLE), {"M": None}, "M is None: expected a whole number"),
        ({}, Config(WHOLE), {"M": 0}, "M = 0: expected a whole number from 1"),
        ({}, Config(WHOLE | {"BLOCK_SIZE_M": 0}), {}, r"bm = .*: expected a whole number from 1"),
        ({}, Config(WHOLE), {"stride_ak": 7}, "A has the strides 1024 and 7: expected one of them to be 1"),
        ({}, Config(WHOLE), {"a_ptr": 140}, "argument a_ptr has no dtype: expected a tensor, or dtype=..."),
        ({}, Config(WHOLE), {"b_ptr": SimpleNamespace(dtype="torch.float8_e5m2")},
         "argument b_ptr: unknown dtype 'float8_e5m2'"),
        ({}, Config(WHOLE), {"b_ptr": SimpleNamespace(dtype="torch.float32")}, "dtype_b = tf32: expected bf16"),
        ({"names": {"m": "tokens"}}, Config(WHOLE), {}, "the kernel has no tokens among .* to say what it calls m$"),
        ({"names": {"rows": "M"}}, Config(WHOLE), {}, "unknown term 'rows' in names: known are m, n"),
        ({"names": {"bm": 1.5}}, Config(WHOLE), {}, "names has 1.5 for bm: expected a name of the kernel's, or a"),
        ({"layout": "RC"}, Config(WHOLE), {}, "unknown layout 'RC'"),
        ({"layout": "NN", "dtype": Form()}, Config(WHOLE), {}, "layout = 'NN' is given beside a Form"),
        ({"top": 0}, Config(WHOLE), {}, "top = 0: expected a whole number >= 1, or None"),
        ({"top": 0.2}, Config(WHOLE), {}, "top = 0.2: expected a whole number >= 1, or None"),
        ({"gpu": "h2000"}, Config(WHOLE), {}, "unknown GPU 'h2000'"),
        ({"l2": "hot"}, Config(WHOLE), {}, "unknown L2 condition 'hot'"),
        ({"calibrated": "none.yaml"}, Config(WHOLE), {}, "calibration none.yaml"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_an_error(
    options: dict[str, Any], config: Config, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(GemmsimError, match=f"^{message}") as caught:
        prune(**{"gpu": GPU, **options})([config], arguments() | changed)
    assert ". " not in str(caught.value)


def test_what_changes_no_time_can_be_ignored() -> None:
    config = Config(WHOLE | {"EVEN_K": 1}, num_ctas=2)
    assert prune(gpu=GPU, ignore=("EVEN_K", "num_ctas"))([config], arguments()) == [config]


def test_a_kernel_that_is_no_gemm() -> None:
    message = r"^the kernel has no M among its arguments and meta-parameters \(x_ptr, n_elements\): expected names="
    with pytest.raises(GemmsimError, match=message):
        prune(gpu=GPU)(
            [Config({"BLOCK_SIZE": 1024})], {"x_ptr": SimpleNamespace(dtype="torch.float32"), "n_elements": 9}
        )


def test_perf_model_refuses_options_that_the_model_does_not_know() -> None:
    with pytest.raises(GemmsimError, match="num_ctas = 4"):
        perf_model(gpu=GPU)(**arguments(), **WHOLE, num_warps=4, num_stages=3, num_ctas=4)


class Third:
    """torch.device("cuda", 3)."""

    type = "cuda"

    def __str__(self) -> str:
        return "3"


def torch(monkeypatch: pytest.MonkeyPatch, product: str | None) -> None:
    """A PyTorch that knows the name of its device."""
    fake = types.ModuleType("torch")
    fake.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_available=lambda: product is not None, get_device_name=lambda device: f"{product}{device or ''}"
    )
    monkeypatch.setitem(sys.modules, "torch", fake)


def test_the_gpu_is_the_one_that_has_the_devices_name(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]
) -> None:
    torch(monkeypatch, "NVIDIA H200")
    prune()([Config(WHOLE)], arguments())
    torch(monkeypatch, "NVIDIA H100 80GB HBM")
    prune()([Config(WHOLE)], arguments() | {"a_ptr": SimpleNamespace(dtype="torch.bfloat16", device=Third())})
    assert [call["gpu"] for call in asked] == ["h200_sxm", "h100_sxm"]


@pytest.mark.parametrize(
    ("product", "message"),
    [
        (None, "no GPU is given, and PyTorch finds none: expected gpu=, as 'h200_sxm'"),
        (
            "AMD Instinct MI300X",
            "no hardware file knows the GPU 'AMD Instinct MI300X': name one that fits it with gpu=",
        ),
    ],
)
def test_a_gpu_that_is_not_known(monkeypatch: pytest.MonkeyPatch, product: str | None, message: str) -> None:
    torch(monkeypatch, product)
    with pytest.raises(GemmsimError, match=f"^{message}"):
        prune()([Config(WHOLE)], arguments())


def test_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        GemmsimError, match=r"^no GPU is given, and PyTorch, which would name it, is not installed: expected gpu=$"
    ):
        prune()([Config(WHOLE)], arguments())


def kernel() -> Any:
    """The tutorial's kernel as Triton has it, never compiled."""
    spec = importlib.util.spec_from_file_location("tutorial", TUTORIAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.matmul


@pytest.mark.parametrize("by_perf_model", [True, False])
def test_tritons_own_autotuner_tries_the_models_first_five(
    by_perf_model: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its decorator, its pruning and its choice; the launch is recorded and the benchmark a stand-in."""
    triton = pytest.importorskip("triton")
    configs = configurations(triton.Config)
    pruner = prune(gpu=GPU) if by_perf_model else prune(gpu=GPU, top=5)
    by = {"early_config_prune": pruner} | ({"perf_model": perf_model(gpu=GPU), "top_k": 5} if by_perf_model else {})
    launched: list[dict[str, Any]] = []
    matmul = kernel()
    monkeypatch.setattr(matmul, "run", lambda *args, **options: launched.append(options))

    def bench(call: Any, quantiles: object) -> list[float]:
        call()
        return [float(len(launched))] * 3

    tuned = triton.autotune(configs=configs, key=["M", "N", "K"], prune_configs_by=by, do_bench=bench)(matmul)
    passed = arguments() | {"stride_cn": 1}
    tuned[(1,)](*(passed[name] for name in matmul.arg_names[: len(passed)]))
    assert list(tuned.configs_timings) == prune(gpu=GPU, top=5)(configs, passed)
    assert len(launched) == 6
    assert tuned.best_config is next(iter(tuned.configs_timings))
    assert len(pruner.dropped) == 36


def test_the_best_of_ten_recorded_shapes_is_kept_within_two_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    """180 recorded configurations a shape, what an earlier model put first among them."""
    monkeypatch.syspath_prepend(ROWS)
    study = importlib.import_module("triton_prune")
    rows = read_measured(str(ROWS / "triton_pick.csv.gz"))
    found = [study.regret(rows, shape, "auto", 0) for shape in study.SHAPES]
    assert [count for _, count in found] == [180] * 10
    assert np.mean([regrets[0] for regrets, _ in found]) <= 0.02
