"""What a kernel takes, read from its cubin: an ELF file whose `.nv.info` sections hold the compiler's records.

A record is one byte of format, one of attribute, two of size or value; with format 4 (EIFMT_SVAL) `size` bytes follow.
Those of the section `.nv.info` read here hold two 32-bit words, the symbol of a function and a number:

    0x2f  EIATTR_REGCOUNT     registers a thread
    0x11  EIATTR_FRAME_SIZE   bytes of the stack frame: local memory a thread, spilled words and indexed arrays alike

Static shared memory is the size of the section `.nv.shared.<kernel>`, which from sm_90 on begins with the RESERVED
bytes that the driver keeps for itself: no part of the kernel's, and counted apart wherever occupancy is. The records
have the names of `cuobjdump -elf`; tests hold them against what ptxas says of the same kernels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gemmsim.errors import GemmsimError

#: bytes of shared memory at the head of a kernel's section if the file has a section `.nv.shared.reserved.*`
RESERVED = 1024
_REGCOUNT, _FRAME_SIZE, _SVAL = 0x2F, 0x11, 4
_CUDA_MACHINE = 190  # EM_CUDA
_SYMBOL_TABLE, _FUNCTION = 2, 2
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, beside what a launch adds: registers and bytes of stack a thread, static bytes a block."""

    regs_per_thread: int
    stack_bytes: int
    smem_bytes: int


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    size: int  # in memory; a section of zeros has no bytes in the file
    data: bytes
    link: int


def resources(cubin: bytes, where: str = "cubin") -> dict[str, Resources]:
    """Kernel name -> what it takes. Raises GemmsimError, naming `where`, for bytes that are no whole cubin."""
    try:
        sections = list(_sections(cubin))
        functions = dict(_functions(sections))
        return {functions[symbol]: _resources(numbers, functions[symbol], sections)
                for symbol, numbers in _records(sections).items() if symbol in functions}  # fmt: skip
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise GemmsimError(f"{where}: expected a cubin, an ELF file for CUDA, found other bytes ({error})") from None


def _resources(numbers: Mapping[int, int], name: str, sections: list[_Section]) -> Resources:
    shared = next((s.size for s in sections if s.name == f".nv.shared.{name}"), 0)
    reserved = RESERVED if any(s.name.startswith(".nv.shared.reserved.") for s in sections) else 0
    return Resources(numbers[_REGCOUNT], numbers.get(_FRAME_SIZE, 0), max(shared - reserved, 0))


def _sections(data: bytes) -> Iterator[_Section]:
    """The sections of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != _CUDA_MACHINE:
        raise ValueError("no ELF header of a GPU")
    segments, table = struct.unpack_from("<QQ", data, 32)
    segment_bytes, segment_count, _, count, names = struct.unpack_from("<HHHHH", data, 54)
    if segments + segment_bytes * segment_count > len(data):
        raise ValueError("it is cut short")
    heads = [_SECTION.unpack_from(data, table + _SECTION.size * i) for i in range(count)]
    texts = data[heads[names][4] : heads[names][4] + heads[names][5]]
    for name, kind, _, _, start, size, link, _, _, _ in heads:
        stored = b"" if kind == 8 else data[start : start + size]  # 8: NOBITS
        if kind not in (0, 8) and len(stored) != size:
            raise ValueError("it is cut short")
        yield _Section(_text(texts, name), kind, size, stored, link)


def _functions(sections: list[_Section]) -> Iterator[tuple[int, str]]:
    """Position in the symbol table and name of each function."""
    table = next(s for s in sections if s.kind == _SYMBOL_TABLE)
    names = sections[table.link].data
    for i in range(len(table.data) // _SYMBOL.size):
        name, info, _, _, _, _ = _SYMBOL.unpack_from(table.data, i * _SYMBOL.size)
        if info & 0xF == _FUNCTION:
            yield i, _text(names, name)


def _records(sections: list[_Section]) -> dict[int, dict[int, int]]:
    """Symbol -> attribute -> number, from the file's own `.nv.info`."""
    found: dict[int, dict[int, int]] = {}
    data = next((s.data for s in sections if s.name == ".nv.info"), b"")
    place = 0
    while place < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, place)
        place += 4
        if form == _SVAL:
            if attribute in (_REGCOUNT, _FRAME_SIZE):
                symbol, number = struct.unpack_from("<II", data, place)
                found.setdefault(symbol, {})[attribute] = number
            place += size
    return {symbol: numbers for symbol, numbers in found.items() if _REGCOUNT in numbers}


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
