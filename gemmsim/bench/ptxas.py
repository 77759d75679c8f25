"""What the compiler says beside the cubin: spills, warnings that cost speed, the first error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PROPERTIES = re.compile(
    r"Function properties for (\S+)\s+(?:ptxas\s+\.)?\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads\s+(?:ptxas )?info\s*: Used (\d+) registers(.*)"
)
_SHARED = re.compile(r"(\d+) bytes smem")
#: what the assembler warns of (sometimes as `info`, but with a number), and what the front end says of speed
_WARNING = re.compile(r"ptxas warning\s*:\s*(.*)|ptxas info\s*:\s*(\(C\d+\).*)|warning.*?:\s*(.*unroll.*)")
_ERROR = re.compile(r"(?:error|fatal)\s*(?:#\S+)?\s*:\s*(.*)", re.IGNORECASE)
#: wgmma serialised or waited for, setmaxnreg ignored: said as `info`, and the kernel is another than was written
_LOST = re.compile(r"ptxas \w+\s*:\s*(\(C75\d\d\) .*)")
_UNSAID = re.compile(r"^ptxas info\s*: Compile time = .*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Said:
    """A kernel as `ptxas -v` describes it, bytes a thread; shared memory is the static part, of a block."""

    regs_per_thread: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    smem_bytes: int


def said(log: str) -> dict[str, Said]:
    """Kernel name -> what the log of `ptxas -v` says of it."""
    found = {}
    for name, stack, stores, loads, regs, rest in _PROPERTIES.findall(log):
        shared = _SHARED.search(rest)
        found[name] = Said(int(regs), int(stack), int(stores), int(loads), int(shared[1]) if shared else 0)
    return found


def timeless(log: str) -> str:
    """The log without how long it took: the same for the same kernel."""
    return _UNSAID.sub("", log.replace("\0", "")).strip()


def warnings(log: str, kernel: str) -> tuple[str, ...]:
    """What costs speed, each once: spills and local arrays of the kernel, whatever ptxas warns of."""
    return tuple(dict.fromkeys([*_memory(said(log).get(kernel)), *_warned(log)]))


def _memory(found: Said | None) -> Iterator[str]:
    if found is None:
        return
    if found.spill_store_bytes or found.spill_load_bytes:
        yield f"spills: {found.spill_store_bytes} B stored and {found.spill_load_bytes} B loaded a thread"
    elif found.stack_bytes:
        yield f"local memory: {found.stack_bytes} B a thread, of arrays that are indexed at run time"


def _warned(log: str) -> Iterator[str]:
    for line in log.splitlines():
        match = _WARNING.search(line)
        if match:
            yield next(text for text in match.groups() if text)


def lost(log: str) -> str:
    """What ptxas did not do of wgmma or setmaxnreg, the costliest first; empty where it did all.

    Such a kernel counts as one that does not compile: it would be slow, or hang, for a reason that no timing shows.
    """
    found = _LOST.findall(log)
    return next((line for line in found if "Performance Loss" in line), found[0] if found else "")


def first_error(log: str) -> str:
    """The first error of a log, with its place if there is one; else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if _ERROR.search(line):
            return line
    return lines[0] if lines else "the compiler gave no reason"
