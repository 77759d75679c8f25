"""Every fitted number of the model: name, unit, meaning. Priors are a family's, values a calibration file's."""

from __future__ import annotations

from collections.abc import Mapping

#: name -> (neutral value: the effect is absent, unit, meaning)
COEFFICIENTS: Mapping[str, tuple[float, str, str]] = {
    "load_latency": (
        1.0,
        "L2 latencies",
        "a round of global loads, from issue to usable data, its wait and barrier included",
    ),
    "dram_latency": (1.0, "DRAM less L2 latency", "what a round takes longer that finds its data in DRAM"),
    "arrival": (0.0, "of the computed clocks", "further latency of a tile's bytes at the rate of port or L2"),
    "load_batch_clk": (0.0, "clocks a load", "what each load adds to the latency when the block waits for its loads"),
    "async_load_clk": (0.0, "clocks a load", "the same while the block goes on"),
    "barrier_clk": (0.0, "clocks a warp", "the barriers of a k-step, for each warp that meets there"),
    "chain_clk": (0.0, "clocks an instruction", "an instruction of a warp, math aside, whose latency nothing hides"),
    "async_write": (1.0, "wavefronts", "a wavefront that cp.async writes to shared memory, against one that is read"),
    "register_write": (1.0, "wavefronts", "the same when data pass registers on their way"),
    "box_row_clk": (0.0, "clocks a row", "a row of a box, 128 B or less, in the copy engine of an SM that asks"),
    "loader_clk": (0.0, "clocks a k-step", "a warp that only loads: its wait for an empty stage, its turn"),
    "loader_cluster_clk": (0.0, "clocks a k-step", "the same more where other blocks of a cluster empty the stage too"),
    "box_clk": (0.0, "clocks a box", "the same for each box that it asks for"),
    "shared_box_clk": (0.0, "clocks a box", "the same more for one that goes to all of a cluster"),
    "tensor_clock": (1.0, "of the clock", "SM clock while the tensor cores are busy"),
    "sector_clk": (0.0, "clocks a sector", "a 32 B sector of a global load through L1"),
    "line_clk": (0.0, "clocks a line", "a line that L1 looks up for one lane of a load alone"),
    "store_clk": (0.0, "clocks a sector", "a 32 B sector stored in the epilogue"),
    "store_round_clk": (0.0, "clocks a round", "buffers of results filled, fenced, and read by the copy engine"),
    "loop_slots": (0.0, "issue slots", "fixed warp instructions of one iteration of the main loop"),
    "operation_slots": (0.0, "issue slots", "warp instructions that go with one copy, fragment load or mma"),
    "fetch_clk": (0.0, "clocks a line", "128 B of a main loop that the instruction cache does not hold"),
    "cold_code": (0.0, "clocks a line", "128 B of code that a launch fetches for the first time"),
    "start": (0.0, "L2 latencies", "start and retirement of a block"),
    "start_slots": (0.0, "issue slots", "fixed warp instructions of a block outside the main loop"),
    "prologue_slots": (0.0, "issue slots a load", "prologue: address and mask of a load"),
    "epilogue_slots": (0.0, "issue slots", "epilogue: conversion, exchange and store of an accumulator"),
    "scalar_slots": (0.0, "issue slots a load", "warp instructions round a load of one element (unaligned rows)"),
    "scalar_clk": (0.0, "clocks a load", "latency that a load of one element adds in turn (unaligned rows)"),
    "scattered_latency": (0.0, "L2 latencies", "what a round of loads takes longer whose lanes lie rows apart"),
    "spill_clk": (0.0, "clocks a word and warp", "a spilled word, stored and loaded once a k-step"),
    "spill_lone_clk": (0.0, "clocks a word", "the same for a lone block: latency that nothing hides"),
    "spill_miss": (0.0, "of the above", "what it costs more once the words miss L1 or the allocation collapses"),
    "second_launch": (0.0, "launches", "gap and launch of the kernel that sums slices along K, behind the first"),
    "handover": (0.0, "of the computed clocks", "a stream-K block's own partial results, left in L2 and waited for"),
    "fixup": (0.0, "of the computed clocks", "the partial results of each block behind it, taken up in order"),
    "shared_near": (1.0, "share", "L2->SM bytes left of the operand that consecutive blocks share, requests merged"),
    "shared_far": (1.0, "share", "the same of the other operand"),
    "merging": (0.0, "exponent", "L2->SM bytes fall with the blocks that ask for the same at once, to minus this"),
    "l2_rate": (1.0, "of the measured rate", "bytes a second that L2 delivers to a GEMM, against a plain read"),
    "rows_64b": (0.0, "share", "further L2 cost of tile rows of 64 B"),
    "rows_32b": (0.0, "share", "further L2 cost of tile rows of 32 B"),
    "narrow_copies": (0.0, "share", "further L2 cost of copies under 16 B a thread"),
    "crossings": (0.0, "share", "further L2 cost of requests that cross a line of 128 B, which begin anywhere on it"),
    "repeated_rows": (0.0, "share", "further L2 cost of rows read again because the tile is taller than M"),
    "filled": (0.0, "of a byte read", "L2 cost of a byte of a tile past the edge of C, which comes as zero"),
    "last_row": (0.0, "of a byte", "L2 cost of asking for the last row again in place of one past M"),
    "hot_lines": (0.0, "share", "further L2 cost of A a time that its lines of a k-step would fit into 64"),
    "pipe_sharpness": (4.0, "exponent", "how sharply the times of an SM's pipes join"),
    "memory_sharpness": (4.0, "exponent", "how sharply SM, L2 and DRAM time join where several blocks share an SM"),
    "memory_sharpness_lone": (4.0, "exponent", "the same with one block an SM"),
    "queue_noise": (0.1, "share", "0: resident blocks run in step; 1: they queue for the SM at random"),
    "straggler": (0.0, "share", "how far the slowest SM of a single wave is behind the mean"),
    "in_step": (0.0, "share", "how often two resident blocks end together, and the blocks of the last wave with them"),
    "power": (0.0, "slow-down a unit of peak", "clock lost above power_onset"),
    "power_onset": (1.0, "of the tensor peak", "average rate at which the power cap begins to bite"),
}

#: what a coefficient is at least where less makes no sense (the others: 0)
LEAST: Mapping[str, float] = {
    "l2_rate": 0.01,
    "pipe_sharpness": 1.0,
    "memory_sharpness": 1.0,
    "memory_sharpness_lone": 1.0,
}


def complete(values: Mapping[str, float]) -> dict[str, float]:
    """All coefficients: these values, and the neutral one where a family has none."""
    return {name: float(values.get(name, neutral)) for name, (neutral, _, _) in COEFFICIENTS.items()}
