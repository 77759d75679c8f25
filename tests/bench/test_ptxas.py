"""The compiler's words: resources, what costs speed, the first error."""

from __future__ import annotations

from gemmsim.bench import ptxas

LOG = """\
k.cu(1): warning #177-D: variable "unused" was declared but never referenced
  int unused = 1;
ptxas warning : For entry gemm adjusting per thread register count of 16 to lower bound of 24
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'reduce' for 'sm_90a'
ptxas info    : Function properties for reduce
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas info    : Compile time = 10.845 ms
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
ptxas         .     1072 bytes stack frame, 5428 bytes spill stores, 4976 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1072 bytes cumulative stack size, 24832 bytes smem
ptxas info    : Compile time = 1054.007 ms
\0\0"""
NVCC = """\
ptxas info    : Compiling entry function 'gemm' for 'sm_80'
ptxas info    : Function properties for gemm
    8 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 16640 bytes smem, 392 bytes cmem[0]
"""


def test_resources_of_each_kernel() -> None:
    said = ptxas.said(LOG)
    assert said["gemm"] == ptxas.Said(255, 1072, 5428, 4976, 24832)
    assert said["reduce"] == ptxas.Said(32, 0, 0, 0, 0)
    assert ptxas.said(NVCC)["gemm"] == ptxas.Said(64, 8, 8, 12, 16640)


def test_warnings_are_those_that_cost_speed() -> None:
    assert ptxas.warnings(LOG, "gemm") == (
        "spills: 5428 B stored and 4976 B loaded a thread",
        "For entry gemm adjusting per thread register count of 16 to lower bound of 24",
        "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
    )
    assert ptxas.warnings(NVCC, "other") == ()


def test_what_is_lost_of_wgmma_and_setmaxnreg() -> None:
    assert ptxas.lost(LOG).startswith("(C7508) Potential Performance Loss: 'setmaxnreg' ignored")
    injected = "ptxas info    : (C7517) wgmma.wait_group is injected in around line 64 by compiler\n"
    assert ptxas.lost(injected).startswith("(C7517)")
    assert ptxas.lost(injected + LOG).startswith("(C7508)")
    assert ptxas.lost(NVCC) == ""


def test_log_says_no_time() -> None:
    quiet = ptxas.timeless(LOG)
    assert "Compile time" not in quiet
    assert "\0" not in quiet
    assert ptxas.said(quiet) == ptxas.said(LOG)


def test_first_error_is_the_compilers_own() -> None:
    log = '6: NVRTC_ERROR_COMPILATION, compilation log:\n\nk.cu(3): error: identifier "foo" is undefined\n  foo\n'
    assert ptxas.first_error(log) == 'k.cu(3): error: identifier "foo" is undefined'
    log = "6: NVRTC_ERROR_COMPILATION, compilation log:\nptxas info    : 0 bytes gmem\nptxas error   : too much shared"
    assert ptxas.first_error(log) == "ptxas error   : too much shared"
    assert ptxas.first_error("no such option") == "no such option"
    assert ptxas.first_error("") == "the compiler gave no reason"
