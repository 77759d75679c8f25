"""The main loop's instructions, counted in the disassembly of a cubin: a tier of facts below registers and bytes.

The hot loop is the innermost one with the most multiply-adds, of tensor cores if there are any; of two alike (a kernel
with a second path for unaligned problems) the shorter. Counts are static, of one warp: a loop within it counts once.
Rates follow NVIDIA's tables of instruction throughput for sm_80 and sm_90: ALU instructions and IMAD go at half the
rate of FFMA, instructions of the uniform datapath take an issue slot alone.

Register banks: from Volta on a register's bank is its number modulo 2, and a bank gives one operand of an instruction a
clock unless an operand marked .reuse kept it; an FFMA whose operands meet in a bank takes a clock more. How the cache
behind .reuse is emptied is not published: here by any instruction that is no FFMA. So `bank_clk` is a comparison
between builds of one kernel, not a measurement.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from math import isnan, nan
from pathlib import Path

from gemmsim.errors import GemmsimError

MISSING = "--sass needs nvdisasm: pip install 'gemmsim[compile]', or put the CUDA toolkit's on PATH"
_WHEELS = ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvcc-cu12")
#: the multiply-adds: of tensor cores; of CUDA cores, which make up the epilogue of a kernel that has the others
TENSOR = frozenset({"HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA"})
MATH = frozenset({"FFMA", "FFMA2", "DFMA"})
#: the ALU pipe and IMAD: 64 lanes a clock and SM, against 128 of FFMA
INTEGER = frozenset(
    {"BMSK", "FLO", "FMNMX", "FSEL", "FSETP", "I2FP", "IABS", "IADD", "IADD3", "IMAD", "IMNMX", "ISETP", "LEA", "LOP3",
     "MOV", "P2R", "PLOP3", "PRMT", "R2P", "SEL", "SGXT", "SHF", "VABSDIFF", "VIADD", "VIMNMX"}
)  # fmt: skip
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\S+?),")
_LABEL = re.compile(r"^(\.L_x?_?\w+):")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_NEVER = "@!PT "
_GUARD = re.compile(r"^\{?\s*(?:@!?U?P\w+\s+)?")
_FFMA = re.compile(r"FFMA\S*\s+R\d+, (\S+), (\S+), (\S+)$")


@dataclass(frozen=True)
class Loop:
    """Instructions of the main loop, of one warp. reads, bank_clk: register reads and clocks of operands an FFMA."""

    instructions: int
    math: int
    lds32: int
    lds64: int
    lds128: int
    sts: int
    ldgsts: int
    ldg: int
    local: int  # loads and stores of spilled words
    integer: int
    barriers: int
    other: int
    step: float  # instructions that a k-step executes; NaN where loops within go round an unknown number of times
    reads: float
    bank_clk: float
    outside: int  # instructions of the kernel outside of the loop
    outside_math: int


def columns(loop: Loop) -> dict[str, str]:
    """The counts as the columns sass_X of a batch."""
    counts = {f"sass_{f.name}": getattr(loop, f.name) for f in fields(loop)}
    return {name: "" if isnan(count) else f"{count:g}" for name, count in counts.items()}


def main_loop(cubin: Path, kernel: str, rounds: Sequence[float] = ()) -> Loop | None:
    """The counts of a kernel's main loop; None if no loop multiplies. Raises GemmsimError without nvdisasm.

    rounds: how often each loop within it goes round in the source, in their order, a mean over warps.
    """
    return _counted(*_parsed(_disassembled(cubin), kernel), rounds)


def nvdisasm() -> str:
    """The program's path: from PyPI's package, else on PATH. Raises GemmsimError if it is in neither."""
    for wheel in _WHEELS:
        try:
            files = metadata.distribution(wheel).files or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.stem == "nvdisasm" and file.parent.name == "bin":
                return str(file.locate())
    found = shutil.which("nvdisasm")
    if found is None:
        raise GemmsimError(MISSING)
    return found


def _disassembled(cubin: Path) -> str:
    done = subprocess.run([nvdisasm(), "-c", str(cubin)], capture_output=True, text=True, check=False)
    if done.returncode:
        first = next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
        raise GemmsimError(f"{cubin}: nvdisasm cannot read it: {first}")
    return done.stdout


def _parsed(text: str, kernel: str) -> tuple[list[str], dict[str, int]]:
    """A kernel's instructions without their guards, and the position that each label stands for."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    inside = False
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            inside = section[1] == kernel
        elif inside:
            label, instruction = _LABEL.match(line), _INSTRUCTION.match(line)
            if label:
                labels[label[1]] = len(instructions)
            elif instruction:
                never = instruction[1].startswith(_NEVER)  # what ptxas puts there to pass the time
                instructions.append("NOP" if never else _GUARD.sub("", instruction[1]))
    return instructions, labels


def _counted(instructions: Sequence[str], labels: dict[str, int], rounds: Sequence[float] = ()) -> Loop | None:
    loops, math = list(_loops(instructions, labels)), _multiplies(instructions)
    hot = _hot(math, loops)
    if hot is None:
        return None
    within = sorted(loop for loop in loops if hot[0] <= loop[0] and loop[1] < hot[1])
    whole, inside = sum(math), slice(hot[0], hot[1] + 1)
    body = instructions[inside]
    classes = ("math" if m else _class(text) for m, text in zip(math[inside], body, strict=True))
    counts, (reads, clk) = Counter(classes), _banks(body)
    known = {f.name: counts[f.name] for f in fields(Loop) if f.type == "int" and f.name in counts}
    zero = {f.name: 0 for f in fields(Loop)}
    rest = {"instructions": len(body), "reads": reads, "bank_clk": clk, "outside": len(instructions) - len(body)}
    rest |= {"outside_math": whole - counts["math"], "step": len(body) + _repeats(instructions, labels, within, rounds)}
    return Loop(**(zero | known | rest))  # type: ignore[arg-type]


def _repeats(
    instructions: Sequence[str], labels: dict[str, int], within: Sequence[tuple[int, int]], rounds: Sequence[float]
) -> float:
    """Instructions that loops within add to a walk past each instruction once, or take off it; NaN: unknown.

    ptxas unrolls such a loop, and what the unrolled rounds leave over it puts in front of it, each round followed by a
    branch past the others.
    """
    if not within:
        return 0.0
    if len(within) != len(rounds):
        return nan
    begin, total = within[0][0], 0.0
    begin = max((last + 1 for first, last in _loops(instructions, labels) if last < begin), default=0)
    for (first, last), count in zip(within, rounds, strict=True):
        unrolled = sum(_class(text) == "sts" for text in instructions[first : last + 1])
        skips = _skips(instructions, labels, begin, first)
        if len(skips) != unrolled - 1:
            return nan
        for trips, share in ((int(count), 1 - count % 1), (int(count) + 1, count % 1)):
            left = trips % unrolled
            skipped = skips[left] if left < len(skips) else 0
            total += share * ((trips // unrolled - 1) * (last + 1 - first) - skipped)
        begin = last + 1
    return total


def _skips(instructions: Sequence[str], labels: dict[str, int], begin: int, end: int) -> list[int]:
    """Instructions that each branch to the most common target within begin..end jumps over, longest first."""
    jumps: dict[int, list[int]] = {}
    for i in range(begin, end):
        target = _target(instructions[i], labels)
        if target is not None and i < target <= end:
            jumps.setdefault(target, []).append(target - i - 1)
    return max(jumps.values(), key=len, default=[])


def _target(text: str, labels: dict[str, int]) -> int | None:
    """Where a branch goes; None for anything else."""
    found = re.search(r"\((\.L\w+)\)", text) if text.startswith("BRA") else None
    return labels.get(found[1]) if found else None


def _loops(instructions: Sequence[str], labels: dict[str, int]) -> Iterator[tuple[int, int]]:
    """First and last instruction of each loop: a branch to a label before it."""
    for i, text in enumerate(instructions):
        target = _target(text, labels)
        if target is not None and target < i:
            yield target, i


def _hot(math: Sequence[bool], loops: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The loop with the most math of its own: what a loop within it multiplies is not counted."""
    with_math = sorted({loop for loop in loops if any(math[loop[0] : loop[1] + 1])}, key=lambda x: x[1] - x[0])
    best: tuple[tuple[int, int], tuple[int, int]] | None = None
    taken = [False] * len(math)
    for first, last in with_math:
        own = sum(m and not t for m, t in zip(math[first : last + 1], taken[first : last + 1], strict=True))
        taken[first : last + 1] = [True] * (last + 1 - first)
        score = (own, first - last)
        if own and (best is None or score > best[0]):
            best = score, (first, last)
    return None if best is None else best[1]


def _multiplies(instructions: Sequence[str]) -> list[bool]:
    """Which instructions are the product's: the tensor cores' if there are any."""
    names = [text.partition(" ")[0].partition(".")[0] for text in instructions]
    kinds = MATH if TENSOR.isdisjoint(names) else TENSOR
    return [name in kinds for name in names]


def _class(text: str) -> str:
    """The field of Loop that an instruction counts under which is no math."""
    name = text.partition(" ")[0]
    base = name.partition(".")[0]
    if base == "LDS":
        return "lds128" if ".128" in name else "lds64" if ".64" in name else "lds32"
    if base in INTEGER:
        return "integer"
    return {"STS": "sts", "LDGSTS": "ldgsts", "LDG": "ldg", "LDL": "local", "STL": "local", "BAR": "barriers"}.get(
        base, "other"
    )


def _banks(body: Sequence[str]) -> tuple[float, float]:
    """Register reads, and clocks that the fuller bank takes, an FFMA."""
    kept: dict[tuple[int, int], int] = {}
    count = reads = clk = 0
    for text in body:
        match = _FFMA.match(text)
        if not match:
            kept.clear()
            continue
        banks = [0, 0]
        for slot, operand in enumerate(match.groups()):
            _read(slot, operand.rstrip(","), kept, banks)
        count, reads, clk = count + 1, reads + sum(banks), clk + max(*banks, 1)
    return (reads / count, clk / count) if count else (0.0, 0.0)


def _read(slot: int, operand: str, kept: dict[tuple[int, int], int], banks: list[int]) -> None:
    """One operand: from its bank, unless .reuse kept it in its slot."""
    number = re.search(r"(?<![A-Z])R(\d+)", operand)
    if number is None:  # RZ, a constant, a uniform register
        return
    register = int(number[1])
    bank = register % 2
    if kept.get((slot, bank)) != register:
        banks[bank] += 1
    if ".reuse" in operand:
        kept[slot, bank] = register
    else:
        kept.pop((slot, bank), None)
