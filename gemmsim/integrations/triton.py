"""Picks as a Python module for triton.autotune, importable where gemmsim is not; `prune` and `perf_model` beside."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from gemmsim import __version__
from gemmsim.errors import GemmsimError
from gemmsim.integrations.autotune import perf_model, prune
from gemmsim.integrations.text import one_line, said
from gemmsim.picks import Pick

__all__ = ["META", "meta_names", "module", "perf_model", "prune"]
#: parameters that are a kernel's meta-parameters, and what Triton's matmul tutorial calls them
META = {"bm": "BLOCK_SIZE_M", "bn": "BLOCK_SIZE_N", "bk": "BLOCK_SIZE_K", "group_m": "GROUP_SIZE_M"}
_MODULE = '''"""Triton configurations of C[M, N] = A[M, K] x B[K, N] for {what}.

Written by gemmsim {version} from measured rows. Times are of gemmsim's own kernel (a tl.dot GEMM with grouped raster,
as in Triton's matmul tutorial); a kernel that does more per tile may want another configuration.

    from picks import PICKS, prune

    @triton.autotune(configs=PICKS, key=["M", "N", "K"], prune_configs_by={{"early_config_prune": prune}})
    @triton.jit
    def kernel(..., M, N, K, ..., {meta}): ...

A shape that is listed runs its pick at once, any other is tuned over all of PICKS.
"""

import triton

#: every configuration that is the pick of a shape
PICKS = [
{picks}
]

#: (M, N, K) -> its configuration
CONFIGS = {{
{configs}
}}


def prune(configs, named_args, **kwargs):
    """The pick alone of a shape that is listed, else all of configs: triton.autotune's early_config_prune."""
    values = {{**named_args, **kwargs}}
    pick = CONFIGS.get((values["M"], values["N"], values["K"]))
    return list(configs) if pick is None else [pick]
'''


def meta_names(text: str | None) -> dict[str, str]:
    """Meta-parameter names for bm, bn, bk and group_m from `BM,BN,BK,G`; None: the tutorial's.

    Raises GemmsimError for another count, and for what is no name.
    """
    if text is None:
        return dict(META)
    names = [name.strip() for name in text.split(",")]
    good = all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    if len(names) != len(META) or len(set(names)) != len(names) or not good:
        raise GemmsimError(f"--names is {text!r}: expected four different names, as {','.join(META.values())}")
    return dict(zip(META, names, strict=True))


def module(picks: Sequence[Pick], names: dict[str, str] | None = None) -> str:
    """The module's text. Raises GemmsimError for a pick of another family than triton."""
    for pick in picks:
        if pick.family != "triton":
            size = f"{pick.m} x {pick.n} x {pick.k}"
            raise GemmsimError(f"--format triton takes picks of family triton, and that of {size} is of {pick.family}: "
                               "expected --family triton, or another format")  # fmt: skip
    called = names or META
    places = {text: i for i, text in enumerate(dict.fromkeys(_config(pick, called) for pick in picks))}
    lines = [f"    ({p.m}, {p.n}, {p.k}): PICKS[{places[_config(p, called)]}],  # {said(p)}" for p in picks]
    asked = picks[0].wanted
    form = one_line(", ".join([asked.form.dtype, f"layout {asked.form.layout}", *_further(picks[0])]))
    return _MODULE.format(
        what=f"{one_line(asked.gpu.name)}, {form}", version=__version__,
        meta=", ".join(called.values()), picks="\n".join(f"    {text}," for text in places), configs="\n".join(lines),
    )  # fmt: skip


def _config(pick: Pick, names: dict[str, str]) -> str:
    meta = ", ".join(f'"{names[name]}": {pick.config[name]}' for name in META)
    return f"triton.Config({{{meta}}}, num_warps={pick.config['num_warps']}, num_stages={pick.config['num_stages']})"


def _further(pick: Pick) -> list[str]:
    """What is multiplied beside the plain product."""
    form = pick.wanted.form
    parts = [f"B in {form.dtype_b}"] if form.dtype_b != form.dtype else []
    parts += [f"{form.batch} a launch"] if form.batch > 1 else []
    return parts + ["beta"] * form.beta + list(form.epilogue)
