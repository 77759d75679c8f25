"""Picks as command lines of the CUTLASS profiler, which times the kernels of CUTLASS's library that have their tiles.

What it reads, from its documentation (docs.nvidia.com/cutlass: profiler, heuristics) and sources: arguments that filter
the kernels of its library (cta_m, cta_n, cta_k, stages, warps_m, warps_n, op_class, types and layouts of A and B), and
arguments of a run (m, n, k, batch_count, beta, split_k_slices, split_k_mode). A pick fits in no other file it reads: a
--testlist-file names whole kernels, which depend on the build, and the heuristics' problems file no configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gemmsim import __version__
from gemmsim.errors import GemmsimError
from gemmsim.integrations.text import one_line, said
from gemmsim.picks import Pick

#: family -> the class of instruction of CUTLASS's kernels
OP_CLASS: Mapping[str, str] = {"simt": "simt", "triton": "tensorop"}
#: dtype -> CUTLASS's name
TYPES: Mapping[str, str] = {
    "fp64": "f64", "fp32": "f32", "tf32": "tf32", "bf16": "bf16", "fp16": "f16", "fp8": "e4m3", "int8": "s8",
}  # fmt: skip
#: how an operand of the transposed product lies there, by how ours lies
LAYOUT = {"N": "column", "T": "row"}
_SCRIPT = """#!/bin/sh
# CUTLASS profiler command lines for {what}, written by gemmsim {version} from measured rows.
#
#   CUTLASS_PROFILER=build/tools/profiler/cutlass_profiler sh THIS_FILE --output=times --append=true
#
# Each line times the kernels of your build that have the tile of one pick; none is timed where none was built with it
# (CUTLASS_LIBRARY_KERNELS, CUTLASS_LIBRARY_INSTANTIATION_LEVEL{depth}). Options of this script go to
# every line. CUTLASS's library stores C column-major: a line asks for the transposed product, with M and N, A and B
# exchanged, which reads and writes the same bytes.
# Mapped: bm bn bk to cta_n cta_m cta_k{mapped}.
# Not mapped: {unmapped}.
# Try --swizzle_size=1,2,4,8 --raster_order=along_m,along_n in place of group_m on CUTLASS 3 kernels.
: "${{CUTLASS_PROFILER:=cutlass_profiler}}"
profile() {{ "$CUTLASS_PROFILER" --operation=Gemm "$@"; }}

"""


def script(picks: Sequence[Pick]) -> str:
    """A shell script, a line a pick.

    Raises GemmsimError for a family that no kernel of CUTLASS is like, and for an epilogue, which its profiler lacks.
    """
    for pick in picks:
        size = f"{pick.m} x {pick.n} x {pick.k}"
        if pick.family not in OP_CLASS:
            raise GemmsimError(f"--format cutlass takes picks of families {' and '.join(OP_CLASS)}, and that of {size} "
                               f"is of {pick.family}: expected another --family, or another format")  # fmt: skip
        if pick.wanted.form.epilogue:
            steps = ",".join(pick.wanted.form.epilogue)
            raise GemmsimError(f"--format cutlass is given with --epilogue {steps}: the profiler's kernels have none")
    asked = picks[0].wanted
    head = _SCRIPT.format(
        what=one_line(f"{asked.gpu.name}, {asked.form.dtype}, layout {asked.form.layout}"), version=__version__,
        mapped=_mapped(picks), unmapped=_unmapped(picks), depth=_depth(picks),
    )  # fmt: skip
    return head + "".join(f'# {_title(pick)}\nprofile {" ".join(_arguments(pick))} "$@"\n' for pick in picks)


def _mapped(picks: Sequence[Pick]) -> str:
    parts = []
    if any(pick.family == "simt" for pick in picks):
        parts += ["warps (bm/wm, bn/wn) to warps_n, warps_m", "stages", "split_k to split_k_slices"]
    elif any(_staged(pick) for pick in picks):
        parts += ["num_stages to stages"]
    return "".join(f", {part}" for part in parts)


def _depth(picks: Sequence[Pick]) -> str:
    return "; CUTLASS's own simt kernels have cta_k 8" if any(pick.family == "simt" for pick in picks) else ""


def _unmapped(picks: Sequence[Pick]) -> str:
    """Parameters that no argument stands for."""
    names = list(dict.fromkeys(name for pick in picks for name in pick.config))
    mapped = {"bm", "bn", "bk", "wm", "wn", "stages", "split_k", *(["num_stages"] if any(map(_staged, picks)) else [])}
    why = {"num_stages": "num_stages (kernels of sm_90 and later choose it)"}
    left = [why.get(name, name) for name in names if name not in mapped]
    return ", ".join([*left, "the type of C", "clusters (every cluster shape of your build is timed)"])


def _title(pick: Pick) -> str:
    return one_line(f"{pick.m} x {pick.n} x {pick.k}: {pick.family} {pick.key}, {said(pick)}")


def _arguments(pick: Pick) -> Iterator[str]:
    form, c = pick.wanted.form, pick.config
    yield from (f"--m={pick.n}", f"--n={pick.m}", f"--k={pick.k}")
    yield f"--A={TYPES[str(form.dtype_b)]}:{LAYOUT[form.layout[1]]}"
    yield f"--B={TYPES[form.dtype]}:{LAYOUT[form.layout[0]]}"
    yield from (f"--beta={int(form.beta)}", f"--batch_count={form.batch}")
    yield f"--op_class={OP_CLASS[pick.family]}"
    yield from (f"--cta_m={c['bn']}", f"--cta_n={c['bm']}", f"--cta_k={c['bk']}")
    if pick.family == "simt":
        yield from (f"--warps_m={c['bn'] // c['wn']}", f"--warps_n={c['bm'] // c['wm']}", "--warps_k=1")
        yield f"--stages={c['stages']}"
        if c["split_k"] > 1 and not c["split_tail"]:
            yield from (f"--split_k_slices={c['split_k']}", "--split_k_mode=parallel")
    elif _staged(pick):
        yield f"--stages={c['num_stages']}"


def _staged(pick: Pick) -> bool:
    """Whether a tensor-core kernel's stages are a choice: kernels of sm_90 and later are built with as many as fit."""
    return pick.family == "triton" and not {"wgmma", "tcgen05"} & set(pick.wanted.gpu.arch.matrix_instructions)
