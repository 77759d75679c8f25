"""What a launch has its SMs do, piece by piece: whole tiles, slices of tiles along K, or stream-K's shares of tiles.

How many there are is the model's Demand (gemmsim.model.split); here each piece has its own k-steps instead of their
mean: slices of a tile differ by one, and shares begin and end where kernels/simt.cu cuts them. Clocks of a piece are
the solver's. A tile at the edge of C is a whole tile: kernels do its masked part as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gemmsim.families.simt_launch import share
from gemmsim.model import solver, split
from gemmsim.model.demand import Case, Demand
from gemmsim.problem import FloatArray, IntArray


@dataclass(frozen=True)
class Pieces:
    """Pieces in launch order, and kinds of them; clk[kind, n - 1]: clocks of a piece with n pieces on its SM.

    tile: in raster order, batch and all; the first of a share. stride: pieces of a persistent launch that start first
    (see engine.run), or 0. starting, ending, fixing: shares of the clocks of a lone piece of a kind that pass before
    its first multiplication, in its epilogue, and with sums that go from block to block (the wait for them included,
    as its coefficients are fitted).
    """

    tile: IntArray
    first_step: IntArray
    steps: IntArray
    kind: IntArray
    clk: FloatArray
    starting: FloatArray
    ending: FloatArray
    fixing: FloatArray
    stride: int = 0

    def __len__(self) -> int:
        return len(self.tile)


def pieces_of(x: Case, d: Demand) -> Pieces:
    """The pieces of a single row."""
    whole, steps, parts = int(d.units.whole[0]), int(d.k_steps[0]), int(d.units.parts[0])
    zeros = np.zeros(whole, np.int64)
    head = (np.arange(whole), zeros, np.full(whole, steps), zeros, zeros)
    if not parts:
        return _pieces(x, d, head, 0)
    streams = bool(x.traits.stream_k[0])
    tail = _shares(x, d, whole, steps, parts) if streams else _slices(x, whole, steps, parts)
    columns = tuple(np.concatenate(pair) for pair in zip(head, tail, strict=True))
    return _pieces(x, d, columns, parts if streams else 0)


def _slices(x: Case, whole: int, steps: int, parts: int) -> tuple[IntArray, ...]:
    """Tile, first step, steps, whether sums are passed on, of how many blocks they are taken up.

    Slice after slice of all tiles cut, and a second kernel sums; or tile after tile, and the last slice's block does.
    """
    slices, place = int(x.traits.split_k[0]), np.arange(parts)
    summed = bool(x.traits.sums_slices[0])
    number, tile = (place % slices, place // slices) if summed else np.divmod(place, parts // slices)
    first, last = steps * number // slices, steps * (number + 1) // slices
    ends = (number == slices - 1) & summed
    return whole + tile, first, last - first, ((number < slices - 1) & summed).astype(np.int64), ends * (slices - 1)


def _shares(x: Case, d: Demand, whole: int, steps: int, parts: int) -> tuple[IntArray, ...]:
    """The same of stream-K's shares; whether sums are passed on, and of how many blocks a share takes them up."""
    rest = int(d.tiles[0]) - whole
    bounds = np.asarray([share(block, parts, rest, steps) for block in range(parts + 1)], np.int64)
    bounds = np.unique(bounds)  # nothing falls to some
    begin, end = bounds[:-1], bounds[1:]
    last_whole = end // steps * steps
    owns_last = (end % steps > 0) & (begin <= last_whole)
    until = np.searchsorted(begin, last_whole + steps)  # the first that begins in a later tile
    takes = np.where(owns_last, until - np.arange(len(begin)) - 1, 0)
    passes = ((begin % steps > 0) | (takes > 0)).astype(np.int64)
    return whole + begin // steps, begin % steps, end - begin, passes, takes


def _pieces(x: Case, d: Demand, columns: tuple[IntArray, ...], stride: int) -> Pieces:
    """Pieces with their kinds: whole tiles, then whatever differs in steps, tiles begun, or what is passed on."""
    tile, first, steps, passes, takes = columns
    whole, k_steps = int(d.units.whole[0]), int(d.k_steps[0])
    begun = -(-(first + steps) // k_steps)
    features, kind = np.unique(np.stack([steps, begun, passes, takes], 1)[whole:], axis=0, return_inverse=True)
    tables = [_clocks(x, d, np.empty((0, 4)))] if whole else []
    tables += [_clocks(x, d, features.astype(np.float64))] if len(features) else []
    clk, starting, ending, fixing = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    kinds = np.concatenate([np.zeros(whole, np.int64), kind.ravel() + (whole > 0)])
    return Pieces(tile, first, steps, kinds, clk, starting, ending, fixing, stride)


def _clocks(x: Case, d: Demand, features: FloatArray) -> tuple[FloatArray, ...]:
    """Clocks at each residency and shares of a lone piece, a row a kind: of whole tiles without features."""
    whole = not len(features)
    if not whole:
        steps, begun, passed, takes = features.T
        units = replace(d.units, parts=np.ones(len(steps)), part_steps=steps, begun=begun)
        fixup = split.fixup_clk(x, passed, takes)
        d = replace(d, units=units, fixup_clk=fixup)

    def block(*free: str) -> solver.Blocks:
        tiles, shares = solver.blocks(x, d, frozenset(free))
        return tiles if shares is None or whole else shares

    def lone(*free: str) -> FloatArray:
        return np.maximum(block(*free).alone_clk, block(*free).work_clk)

    residents = range(1, int(x.blocks_per_sm[0]) + 1)
    clk = np.stack([solver.resident_clk(x, d, block(), float(n)) for n in residents], 1)
    return clk, *(np.broadcast_to(1 - lone(term) / lone(), len(clk)) for term in ("fill", "epilogue", "split"))
