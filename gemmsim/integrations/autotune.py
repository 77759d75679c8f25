"""Triton's autotuner told what to try: `prune` and `perf_model` for triton.autotune's prune_configs_by.

The user's own configurations are predicted as family triton (a tl.dot GEMM with grouped raster, as in Triton's matmul
tutorial), all of a list in one call, each once a problem. What a kernel's arguments and meta-parameters are called is
found by TERMS or said by `names`; what is not found is an error, never assumed.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import load_gpu
from gemmsim.model.predict import predict
from gemmsim.problem import LAYOUTS, Form, dtype_name, form_of

#: what the model asks for -> what kernels call it, the first that is there counts
TERMS: Mapping[str, tuple[str, ...]] = {
    "m": ("M",), "n": ("N",), "k": ("K",),
    "a": ("a_ptr", "a", "A"), "b": ("b_ptr", "b", "B"), "c": ("c_ptr", "c", "C"),
    "stride_am": ("stride_am",), "stride_ak": ("stride_ak",), "stride_bk": ("stride_bk",), "stride_bn": ("stride_bn",),
    "bm": ("BLOCK_SIZE_M", "BLOCK_M"), "bn": ("BLOCK_SIZE_N", "BLOCK_N"), "bk": ("BLOCK_SIZE_K", "BLOCK_K"),
    "group_m": ("GROUP_SIZE_M", "GROUP_M"),
}  # fmt: skip
_TILE = ("bm", "bn", "bk", "group_m")
_LAUNCH = ("num_warps", "num_stages")
#: options of triton.Config that the model does not know, and the values that change nothing
_UNMODELLED: Mapping[str, tuple[object, ...]] = {"num_ctas": (1, None), "maxnreg": (None,), "ir_override": (None,)}
#: what Triton's do_bench leaves in the L2 before each launch
BENCH_L2 = "cold_dirty"
_PROBLEMS = 256  # whose predictions are kept
Tile = tuple[int, ...]  # values of _TILE, then of _LAUNCH


def prune(
    *, top: int | None = None, gpu: str | None = None, dtype: str | Form | None = None, layout: str | None = None,
    names: Mapping[str, str | int] | None = None, ignore: Collection[str] = (), l2: str = BENCH_L2,
    calibrated: str = "auto",
) -> Pruner:  # fmt: skip
    """An early_config_prune: of the user's configurations those that can launch, in their order.

    top: the fastest so many, fastest first, those that differ in group_m alone once while there are others. gpu: a
    hardware file's name; None: the one that has the device's name. dtype: of A and B, or a Form, which says all; None:
    the types of the tensors passed, float32 as tf32. layout: how A and B lie where the kernel is not passed their
    strides. names: what the kernel calls a term of TERMS, or its value if it has none. ignore: meta-parameters that
    change no time. l2, calibrated: see `predict`.
    Raises GemmsimError for names and options that are none, and when called for a kernel that it cannot read.
    """
    if top is not None and not (isinstance(top, int) and top >= 1):
        raise GemmsimError(f"top = {top!r}: expected a whole number >= 1, or None")
    return Pruner(_kernel(gpu, dtype, layout, names, ignore, l2, calibrated), top)


def perf_model(
    *, gpu: str | None = None, dtype: str | Form | None = None, layout: str | None = None,
    names: Mapping[str, str | int] | None = None, ignore: Collection[str] = (), l2: str = BENCH_L2,
    calibrated: str = "auto",
) -> Callable[..., float]:  # fmt: skip
    """A perf_model: seconds of one configuration, infinite where it cannot launch. Options are those of `prune`.

    Triton hands it one configuration a call; behind a `prune` with the same options all are known already. It cannot
    tell a meta-parameter from an argument, so only `prune` finds those that are unknown.
    """
    kernel = _kernel(gpu, dtype, layout, names, ignore, l2, calibrated)

    def time_s(**arguments: Any) -> float:
        kernel.refuse_options(arguments)
        return kernel.problem(arguments).times([kernel.tile(arguments)])[0][0]

    return time_s


class Pruner:
    """What `prune` returns. dropped: the configurations of the last call that cannot launch, each with the reason."""

    def __init__(self, kernel: _Kernel, top: int | None) -> None:
        self._kernel, self._top = kernel, top
        self.dropped: list[tuple[Any, str]] = []

    def __call__(self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        """The configurations worth a trial; all, with a warning, where by the model none can launch."""
        arguments = {**named_args, **kwargs}
        problem = self._kernel.problem(arguments)
        tiles = [self._kernel.tile_of(config, arguments) for config in configs]
        found = problem.times(tiles)
        self.dropped = [(config, why) for config, (_, why) in zip(configs, found, strict=True) if why]
        order = [i for i, (_, why) in enumerate(found) if not why]
        if not order:
            warnings.warn(f"none of {len(configs)} configurations can launch on {problem.gpu} by gemmsim's estimate, "
                          f"the first for {found[0][1]}: all are kept", stacklevel=2)  # fmt: skip
            return list(configs)
        if self._top is not None:
            order = _shortlist(sorted(order, key=lambda i: found[i][0]), tiles)[: self._top]
        return [configs[i] for i in order]


def _shortlist(order: Sequence[int], tiles: Sequence[Tile]) -> list[int]:
    """The order with those behind that differ from an earlier one in group_m alone.

    Their times are as good as equal to the model, and often to the GPU: all of one tile would fill a list of five.
    """
    seen: set[Tile] = set()
    first: list[int] = []
    again: list[int] = []
    for i in order:
        tile = tuple(value for term, value in zip((*_TILE, *_LAUNCH), tiles[i], strict=True) if term != "group_m")
        (again if tile in seen else first).append(i)
        seen.add(tile)
    return [*first, *again]


@dataclass(frozen=True)
class _Problem:
    """What configurations are predicted for."""

    m: int
    n: int
    k: int
    form: Form
    gpu: str
    l2: str
    calibrated: str

    def times(self, tiles: Sequence[Tile]) -> list[tuple[float, str]]:
        """Seconds and the reason why it cannot launch of each; those not known yet are predicted in one call."""
        known = _known(self)
        new = [tile for tile in dict.fromkeys(tiles) if tile not in known]
        if new:
            found = predict(
                self.m, self.n, self.k, gpu=self.gpu, dtype=self.form, family="triton", l2=self.l2,
                config=dict(zip((*_TILE, *_LAUNCH), zip(*new, strict=True), strict=True)), calibrated=self.calibrated,
            )  # fmt: skip
            times = np.where(found.feasible, found.time_s, np.inf).tolist()
            known.update(zip(new, zip(times, found.reasons, strict=True), strict=True))
        return [known[tile] for tile in tiles]


@lru_cache(maxsize=_PROBLEMS)
def _known(problem: _Problem) -> dict[Tile, tuple[float, str]]:
    """The predictions of a problem, filled as they are asked for; one for all that ask for the same."""
    return {}


def _kernel(
    gpu: str | None, dtype: str | Form | None, layout: str | None, names: Mapping[str, str | int] | None,
    ignore: Collection[str], l2: str, calibrated: str,
) -> _Kernel:  # fmt: skip
    """A reader of a kernel's arguments. Raises GemmsimError for options that are none."""
    for term, called in (names or {}).items():
        if term not in TERMS:
            raise unknown("term", str(term), TERMS, where="names")
        if isinstance(called, bool) or not isinstance(called, str | int):
            raise GemmsimError(f"names has {called!r} for {term}: expected a name of the kernel's, or a number")
    if layout is not None and layout not in LAYOUTS:
        raise unknown("layout", str(layout), LAYOUTS)
    if isinstance(dtype, Form) and layout is not None:
        raise GemmsimError(f"layout = {layout!r} is given beside a Form: expected one of them, a Form has a layout")
    form = None if dtype is None else form_of(dtype)
    left_out = frozenset([ignore] if isinstance(ignore, str) else ignore)
    return _Kernel(gpu, form, isinstance(dtype, Form), layout, dict(names or {}), left_out, l2, calibrated)


@dataclass(frozen=True)
class _Kernel:
    """Reads a kernel's arguments and meta-parameters. whole: the form holds the layout too."""

    gpu: str | None
    form: Form | None
    whole: bool
    layout: str | None
    names: Mapping[str, str | int]
    ignore: frozenset[str]
    l2: str
    calibrated: str

    def problem(self, arguments: Mapping[str, Any]) -> _Problem:
        """What is multiplied, from a launch's arguments. Raises GemmsimError for what they do not say."""
        m, n, k = (self._whole(term, arguments) for term in "mnk")
        gpu = self.gpu or _device(self._found("a", arguments))
        return _Problem(m, n, k, self._form(arguments), gpu, self.l2, self.calibrated)

    def tile_of(self, config: Any, arguments: Mapping[str, Any]) -> Tile:
        """The model's parameters of a triton.Config. Raises GemmsimError for a meta-parameter that it does not know."""
        known = {str(name) for term in _TILE for name in self._called(term)} | self.ignore
        for name in config.kwargs:
            if name not in known:
                mapped = ", ".join("/".join(map(str, self._called(term))) for term in _TILE)
                raise GemmsimError(f"a configuration has the meta-parameter {name}, which the model does not know: "
                                   f"expected {mapped}, names that say otherwise, or it in ignore")  # fmt: skip
        options = {name: getattr(config, name, None) for name in (*_LAUNCH, *_UNMODELLED)}
        self.refuse_options(options)
        return self.tile({**arguments, **config.kwargs, **options})

    def refuse_options(self, options: Mapping[str, Any]) -> None:
        """Raise GemmsimError for an option of triton.Config that the model does not know."""
        for name, harmless in _UNMODELLED.items():
            if name not in self.ignore and options.get(name) not in harmless:
                raise GemmsimError(f"a configuration has {name} = {options[name]!r:.40}, which the model does not "
                                   f"know: expected {harmless[0]}, or {name} in ignore")  # fmt: skip

    def tile(self, values: Mapping[str, Any]) -> Tile:
        """The model's parameters, from arguments and meta-parameters together."""
        return (*(self._whole(term, values) for term in _TILE), *(_number(name, values[name]) for name in _LAUNCH))

    def _called(self, term: str) -> tuple[str | int, ...]:
        return (self.names[term],) if term in self.names else TERMS[term]

    def _found(self, term: str, values: Mapping[str, Any]) -> tuple[str, Any] | None:
        """What the term is called here, and its value; None where it is not there."""
        for name in self._called(term):
            if isinstance(name, int):
                return term, name
            if name in values:
                return name, values[name]
        return None

    def _needed(self, term: str, values: Mapping[str, Any], else_: str = "") -> tuple[str, Any]:
        found = self._found(term, values)
        if found is None:
            have = ", ".join(values) or "none"
            called = " or ".join(map(str, self._called(term)))
            raise GemmsimError(f"the kernel has no {called} among its arguments and meta-parameters ({have:.200}): "
                               f"expected names={{{term!r}: ...}} to say what it calls {term}{else_}")  # fmt: skip
        return found

    def _whole(self, term: str, values: Mapping[str, Any]) -> int:
        return _number(*self._needed(term, values))

    def _form(self, arguments: Mapping[str, Any]) -> Form:
        if self.form is not None and self.whole:
            return self.form
        layout = self._side("a", "stride_am", "stride_ak", arguments)
        layout += self._side("b", "stride_bk", "stride_bn", arguments)
        if self.form is not None:
            return form_of(Form(self.form.dtype, layout=layout))
        a, b, c = (self._dtype(operand, arguments) for operand in "abc")
        return form_of(Form("tf32" if a == "fp32" else a, "tf32" if b == "fp32" else b, c, layout))

    def _dtype(self, operand: str, arguments: Mapping[str, Any]) -> str:
        name, tensor = self._needed(operand, arguments, ", or dtype=...")
        found = getattr(tensor, "dtype", None)
        if found is None:
            raise GemmsimError(f"argument {name} has no dtype: expected a tensor, or dtype=...")
        try:
            return dtype_name(str(found).removeprefix("torch."))
        except GemmsimError as error:
            raise GemmsimError(f"argument {name}: {error}") from None

    def _side(self, operand: str, row: str, column: str, arguments: Mapping[str, Any]) -> str:
        """N or T, by which of the operand's strides is 1; a kernel that is passed one alone takes the other as 1."""
        strides = [None if (found := self._found(s, arguments)) is None else _number(*found) for s in (row, column)]
        if strides == [None, None]:
            if self.layout is None:
                names = " or ".join(str(name) for stride in (row, column) for name in self._called(stride))
                raise GemmsimError(f"the kernel is passed no {names}: expected layout=, as 'NN', or names for them")
            return self.layout["ab".index(operand)]
        across, along = (1 if s is None else s for s in strides)
        if 1 not in (across, along):
            raise GemmsimError(f"{operand.upper()} has the strides {across} and {along}: expected one of them to be 1")
        return "N" if along == 1 else "T"


def _number(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise GemmsimError(f"{name} is {value!r:.40}: expected a whole number") from None


def _device(found: tuple[str, Any] | None) -> str:
    """The hardware file of the device that a tensor is on, else of the current one. Raises GemmsimError for none."""
    try:
        import torch
    except ModuleNotFoundError:
        raise GemmsimError(
            "no GPU is given, and PyTorch, which would name it, is not installed: expected gpu="
        ) from None
    if not torch.cuda.is_available():
        raise GemmsimError("no GPU is given, and PyTorch finds none: expected gpu=, as 'h200_sxm'")
    device = getattr(found[1], "device", None) if found else None
    product = str(torch.cuda.get_device_name(device if getattr(device, "type", "") == "cuda" else None))
    try:
        return load_gpu(product).name
    except GemmsimError:
        raise GemmsimError(f"no hardware file knows the GPU {product!r}: name one that fits it with gpu=, or make one "
                           "with gemmsim probe") from None  # fmt: skip
