"""Configurations of every family, shapes, layouts and epilogues that the kernels are held to."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gemmsim.bench.check import compare
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Ask, Conditions, Refused, Task
from gemmsim.problem import Form, form_of

#: mechanism -> configuration, defaults elsewhere
CONFIGS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "naive": {"usual": {}, "uncoalesced": {"bm": 32, "bn": 8, "bk": 1, "coalesced": 0}},
    "smem_tile": {"usual": {}, "small": {"bm": 16, "bn": 16, "bk": 16, "pad": 0}},
    "register_tile": {"usual": {}, "flat": {"bm": 128, "bn": 32, "bk": 8, "tm": 8, "tn": 2}},
    "simt": {
        "usual": {},
        "single_buffer": {"bm": 64, "bn": 64, "bk": 16, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "stages": 1,
                          "async_copy": 0, "regs": 0},
        "registers": {"bm": 64, "bn": 128, "bk": 8, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "stages": 2,
                      "async_copy": 0, "regs": 0},
        "five_stages": {"bm": 64, "bn": 64, "bk": 16, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "stages": 5, "regs": 0,
                        "group_m": 1},
        "scalar": {"bm": 64, "bn": 64, "bk": 16, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "stages": 2, "regs": 0,
                   "vec": 1},
        "split_k": {"bm": 64, "bn": 64, "bk": 16, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "regs": 0, "split_k": 4},
        "split_tail": {"bm": 64, "bn": 64, "bk": 8, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "regs": 0, "split_k": 3,
                       "split_tail": 1},
        "stream_k": {"bm": 64, "bn": 64, "bk": 16, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "regs": 0, "stream_k": 1},
    },
}  # fmt: skip
_SMALL = {"bm": 64, "bn": 64, "wm": 32, "wn": 32}
#: the same of families on tensor cores; copy_a and so on are fitted to the sizes, down to single elements
TENSOR_CONFIGS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "mma": {
        "usual": {},
        "double_buffer": _SMALL | {"stages": 2, "bk": 64},
        "one_step": {"bm": 128, "bn": 64, "bk": 16, "wm": 64, "wn": 32, "stages": 4, "group_m": 3},
        "deep": {"bm": 32, "bn": 32, "bk": 128, "wm": 16, "wn": 16, "stages": 3, "blocks": 3},
        "threes": {"bm": 96, "bn": 192, "wm": 32, "wn": 64, "stages": 3},
        "lone_warp": {"bm": 16, "bn": 32, "bk": 64, "wm": 16, "wn": 32, "stages": 5},
        "split_k": _SMALL | {"stages": 3, "split_k": 5},
    },
    "wmma": {
        "usual": {},
        "one_buffer": {"bm": 64, "bn": 96, "bk": 16, "wm": 32, "wn": 48, "stages": 1},
    },
}
ONE_BLOCK = {"cluster_m": 1, "cluster_n": 1}
_SMALL = ONE_BLOCK | {"bm": 64, "bn": 64, "consumers": 1, "stages": 4}
#: the same of wgmma, whose strides are multiples of 16 bytes
WGMMA_CONFIGS: Mapping[str, Mapping[str, int]] = {
    "usual": {},
    "alone": ONE_BLOCK,
    "across": {"cluster_m": 1, "cluster_n": 2},
    "four": {"cluster_m": 2, "cluster_n": 2, "bn": 128},
    "one_consumer": _SMALL | {"bm": 128, "bn": 192, "stages": 3},
    "three_consumers": ONE_BLOCK | {"bm": 192, "bn": 128, "consumers": 3, "stages": 3},
    "turns": {"bm": 64, "pingpong": 1, "stages": 4},
    "two_blocks": _SMALL | {"blocks": 2, "group_m": 1},
    "swap": {"swap": 1, "bm": 48, "bn": 128, "cluster_m": 1, "cluster_n": 2},
    "swap_narrow": ONE_BLOCK | {"swap": 1, "bm": 24, "bn": 128},
    "swap_wide": ONE_BLOCK | {"swap": 1, "bm": 256, "bn": 128},
    "narrow": _SMALL | {"bn": 8},
    "shallow": _SMALL | {"bk": 32, "stages": 8},
    "deep": _SMALL | {"bk": 128, "stages": 2},
    "hilbert": _SMALL | {"hilbert": 1},
    "split_k": _SMALL | {"split_k": 5},
    "split_pairs": {"bm": 128, "bn": 64, "split_k": 3},
    "split_tail": _SMALL | {"split_k": 2, "split_tail": 1},
    "stream_k": _SMALL | {"stream_k": 1},
    "stream_pairs": {"bn": 64, "stream_k": 1},
    "stream_turns": ONE_BLOCK | {"bm": 64, "bn": 64, "pingpong": 1, "stream_k": 1},
    "turns_of_three": ONE_BLOCK | {"bm": 64, "bn": 96, "pingpong": 1, "consumers": 3},
    "swap_turns": ONE_BLOCK | {"swap": 1, "bm": 72, "bn": 128, "pingpong": 1},
    "split_turns": {"bn": 128, "split_k": 3, "stages": 3, "pingpong": 1},
}
#: tensor-core dtypes, the layouts that all their families have, and C's dtype
TENSOR_FORMS = (("bf16", ("NN", "NT", "TN", "TT"), "bf16"), ("fp16", ("NN", "TT"), "fp16"),
                ("tf32", ("NN", "NT", "TN", "TT"), "fp32"), ("int8", ("NT",), "fp16"))  # fmt: skip
LAYOUTS = ("NN", "NT", "TN")
EPILOGUES: tuple[tuple[bool, tuple[str, ...], str | None], ...] = (
    (True, (), None),
    (False, ("bias",), None),
    (False, ("relu",), None),
    (False, ("bias", "gelu"), None),
    (False, ("silu",), None),
    (False, ("residual",), None),
    (True, ("bias", "gelu", "residual"), None),
    (False, ("scale",), "bf16"),
    (False, ("bias", "relu", "scale"), "fp16"),
)
#: one, odd, prime, non-square, flat, thin and deep; and sizes on either side of tiles and waves
SHAPES: tuple[tuple[int, int, int], ...] = (
    (1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1), (1, 1, 1000), (1, 1000, 1), (1000, 1, 1), (1, 257, 129), (257, 1, 129),
    (257, 129, 1), (2, 3, 5), (3, 5, 7), (7, 5, 3), (4, 4, 4), (8, 8, 8), (13, 17, 19), (16, 16, 16), (31, 33, 32),
    (32, 32, 32), (33, 31, 34), (37, 41, 43), (47, 53, 59), (61, 67, 71), (63, 64, 65), (64, 64, 64), (64, 63, 64),
    (64, 64, 63), (65, 64, 64), (64, 65, 64), (64, 64, 65), (100, 100, 100), (127, 128, 129), (128, 128, 128),
    (128, 127, 128), (129, 130, 131), (131, 137, 139), (191, 193, 197), (255, 256, 257), (256, 256, 256),
    (256, 255, 4), (257, 258, 259), (1, 4096, 64), (4096, 1, 64), (5, 1023, 77), (1023, 5, 77), (17, 2048, 31),
    (2048, 17, 31), (300, 200, 100), (100, 300, 200), (384, 96, 192), (96, 384, 192), (509, 521, 523), (512, 512, 512),
    (511, 513, 512), (640, 333, 128), (333, 640, 129), (1000, 1000, 1000), (1024, 768, 256), (769, 1025, 255),
    (64, 64, 4096), (64, 64, 4097), (33, 65, 5000), (128, 192, 3001), (1536, 1536, 64), (1151, 1153, 97),
    (16, 11008, 96), (2047, 129, 500),
)  # fmt: skip


def families() -> list[str]:
    """Families of CONFIGS."""
    return list(CONFIGS)


def ask(
    size: tuple[int, int, int], family: str, config: Mapping[str, int], form: str | Form = "fp32",
    how: Conditions | None = None,
) -> Ask:  # fmt: skip
    """An Ask with the family's defaults where the configuration does not say."""
    module = None if family == "cublas" else importlib.import_module(f"gemmsim.families.{family}")
    defaults = {p.name: p.default for p in module.PARAMETERS} if module else {}
    return Ask(*size, form_of(form), family, tuple((defaults | dict(config)).items()), how or Conditions())


def faults(rig: Any, data_of: Any, tasks: Sequence[Task]) -> list[str]:
    """What is wrong with each task's result, twice in a row: a workspace must be left as it was found."""
    found = []
    for task in tasks:
        a = task.ask
        name = f"{a.m}x{a.n}x{a.k} {a.form.layout} {dict(a.config)}"
        data = data_of(a)
        try:
            prepared = prepare(rig.device, task, data)
        except Refused as refused:
            found.append(f"{name}: refused: {refused}")
            continue
        for turn in ("first", "second"):
            if turn == "first":
                prepared.poison()
            data.poison(rig.device)
            prepared.launch()
            reason = compare(rig.device, data, prepared.unfused).reason
            found += [f"{name}, {turn} launch: {reason}"] if reason else []
    return found


def sized(tasks: Sequence[Task], shapes: Sequence[tuple[int, int, int]]) -> list[Task]:
    """The tasks' kernels on every shape."""
    return [replace(t, ask=replace(t.ask, m=m, n=n, k=k)) for t in tasks for m, n, k in shapes]
