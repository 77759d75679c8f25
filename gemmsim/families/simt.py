"""The fast GEMM on CUDA cores: block, warp and thread tiles, cp.async pipeline, raster, split-K and stream-K.

The kernel is kernels/simt.cu.
"""

from __future__ import annotations

from gemmsim.families.traits import Parameter

NAME = "simt"
DTYPES = ("fp32", "fp64")
WEIGHT_DTYPES: tuple[str, ...] = ()
LAYOUTS = ("NN", "NT", "TN")
EPILOGUES = True
PARAMETERS = (
    Parameter("bm", (32, 64, 96, 128, 192, 256), 64, 4, 512, False, "rows of the block tile"),
    Parameter("bn", (32, 64, 96, 128, 192, 256), 256, 4, 512, False, "columns of the block tile"),
    Parameter("bk", (8, 16, 32), 8, 4, 64, False, "depth of a k-step"),
    Parameter("wm", (16, 32, 48, 64, 96, 128), 32, 1, 256, False, "rows of the warp tile"),
    Parameter("wn", (16, 32, 48, 64, 96, 128), 128, 1, 256, False, "columns of the warp tile"),
    Parameter("tm", (2, 4, 8, 12, 16), 8, 1, 32, False, "rows of a thread's results"),
    Parameter("tn", (2, 4, 8, 12, 16), 16, 1, 32, False, "columns of a thread's results"),
    Parameter("stages", (1, 2, 3, 4, 5), 3, 1, 8, False, "buffers in shared memory"),
    Parameter("async_copy", (0, 1), 1, 0, 1, False, "1: cp.async, 2 stages or more; 0: through registers, 1 or 2 stages"),
    Parameter("vec", (4,), 4, 1, 4, True, "elements of a global load, fewer where a stride or an address forbids it"),
    Parameter("blocks", (1, 2, 3, 4, 6), 1, 1, 16, False, "blocks an SM that the compiler leaves registers for"),
    Parameter("regs", (0, 216, 224, 232, 240), 232, 0, 255, False, "cap on registers a thread; 0: what `blocks` leaves"),
    Parameter("order", (1,), 1, 0, 1, False, "a thread's products are written down row by row (0) or column by column"),
    Parameter("group_m", (1, 8, 16), 8, 1, 65535, False, "tile rows that the raster walks together"),
    Parameter("split_k", (1, 2, 3, 4, 6, 8, 12, 16), 1, 1, 256, False, "slices along K of a tile that is split"),
    Parameter("split_tail", (0, 1), 0, 0, 1, False, "1: only tiles past the last whole wave are split; 0: all"),
    Parameter("stream_k", (0, 1), 0, 0, 1, False, "1: one persistent wave shares out the k-steps evenly"),
)
