"""Kernels to cubins without a GPU: every family, the cache, what fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gemmsim import families
from gemmsim.bench import compile as room
from gemmsim.bench import nvrtc, ptxas
from gemmsim.bench.compile import Request, Source, arch_of, compile_all, compile_one, compile_sources, source_of
from gemmsim.errors import GemmsimError
from gemmsim.hardware import load_gpu
from gemmsim.problem import Form

pytest.importorskip("cuda.core")

CUDA = [name for name in families.FAMILIES if name != "triton"]
KERNEL = 'extern "C" __global__ void gemm(float* x) { x[threadIdx.x] = VALUE; }\n'


#: wgmma whose accumulators are touched between, setmaxnreg without bounds, and one that is as it should be
GMMA = """
#ifdef DROP
extern "C" __global__ void gemm(float* out) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  *out = 1;
}
#else
extern "C" __global__ void __launch_bounds__(128, 1) gemm(float* out, unsigned long long a, unsigned long long b) {
  float c[4];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %6, 0;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a + i), "l"(b + i), "n"(1));
#ifdef TOUCH
    c[0] += 1.f;
#endif
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) :: "memory");
  out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}
#endif
"""


def request(family: str, arch: str = "sm_90a", form: Form | None = None, **changes: int) -> Request:
    """A family's default configuration, changed."""
    module = families.family(family)
    config = {p.name: p.default for p in module.PARAMETERS} | changes
    return Request(family, form or Form(module.DTYPES[0]), tuple(config.items()), arch)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "small.cu"
    path.write_text(KERNEL)
    return path


def sources(path: Path, *values: str) -> list[Source]:
    return [Source(path, (("VALUE", value),), "sm_90a") for value in values]


def results(given: list[Source], cache: Path, **more: Any) -> list[room.Compiled]:
    found = dict(compile_sources(given, cache=cache, **more))
    assert sorted(found) == list(range(len(given)))
    return [found[i] for i in range(len(given))]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("family", CUDA)
def test_every_family_compiles(family: str, arch: str, tmp_path: Path) -> None:
    if (family, arch) == ("wgmma", "sm_80"):
        pytest.skip("sm_80 has no wgmma, no clusters")
    found = compile_one(request(family, arch), cache=tmp_path)
    assert found.status == "ok", found.reason
    assert found.request == request(family, arch)
    assert found.cubin is not None
    assert found.cubin.read_bytes().startswith(b"\x7fELF")
    said = ptxas.said(found.log)[room.KERNEL]
    assert (found.regs_per_thread, found.stack_bytes, found.smem_bytes) == (
        said.regs_per_thread, said.stack_bytes, said.smem_bytes,
    )  # fmt: skip
    assert found.regs_per_thread >= 16
    assert found.compiler == nvrtc.version()
    assert found.compiler.startswith("nvrtc 1")


@pytest.mark.parametrize(
    "form",
    [Form("fp32", layout="NT"), Form("fp32", layout="TN"), Form("fp32", beta=True, epilogue=("bias", "gelu"))],
    ids=["NT", "TN", "epilogue"],
)
def test_forms_compile_to_kernels_of_their_own(form: Form, tmp_path: Path) -> None:
    plain, other = (source_of(request("register_tile", form=f)) for f in (Form("fp32"), form))
    found = results([plain, other], tmp_path)
    assert [f.status for f in found] == ["ok", "ok"]
    assert found[0].key != found[1].key


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("family", "form", "changes"),
    [
        ("mma", Form("bf16", layout="TT"), {}),
        ("mma", Form("fp16", layout="NT", beta=True, epilogue=("bias", "gelu", "residual")), {"bn": 128, "wn": 32}),
        ("mma", Form("tf32", layout="TN"), {"bn": 128, "bk": 16}),
        ("mma", Form("int8", layout="NT", dtype_c="fp8"), {"bk": 128, "bn": 128}),
        ("mma", Form("bf16", batch=2), {"split_k": 4, "bm": 64, "wm": 32, "copy_a": 8, "copy_b": 4, "copy_c": 4}),
        ("mma", Form("bf16"), {"bm": 64, "bn": 64, "wm": 32, "wn": 32, "copy_a": 2, "copy_b": 2, "copy_c": 2}),
        ("wmma", Form("bf16", layout="NT", epilogue=("bias", "relu")), {}),
        ("wmma", Form("fp16", layout="TN"), {"stages": 1}),
        ("wmma", Form("tf32", layout="TT"), {"copy_a": 4, "copy_b": 4}),
        ("wmma", Form("int8"), {"copy_b": 1}),
    ],
)  # fmt: skip
def test_tensor_cores_compile_without_spills(
    family: str, form: Form, changes: dict[str, int], arch: str, tmp_path: Path
) -> None:
    found = compile_one(request(family, arch, form, **changes), cache=tmp_path)
    assert found.status == "ok", found.reason
    assert (found.spill_bytes, found.stack_bytes, found.warnings) == (0, 0, ())


def test_the_same_macros_share_a_cubin(kernel: Path, tmp_path: Path) -> None:
    told: list[int] = []
    found = results(sources(kernel, "1", "2", "1", "1"), tmp_path / "cache", progress=told.append)
    assert len({f.cubin for f in found}) == 2
    assert found[0].cubin == found[2].cubin == found[3].cubin
    assert sum(told) == 4
    assert len(list((tmp_path / "cache").rglob("*.cubin"))) == 2


def test_what_is_cached_is_not_compiled_again(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = results(sources(kernel, "1", "nonsense"), tmp_path / "cache")
    monkeypatch.setattr(room, "WORKER", "no.such.module")
    assert results(sources(kernel, "1", "nonsense"), tmp_path / "cache") == first
    (died,) = results(sources(kernel, "2"), tmp_path / "cache")
    assert died.status == "compile"


@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_a_broken_entry_is_compiled_again(damage: str, kernel: Path, tmp_path: Path) -> None:
    (first,) = results(sources(kernel, "1"), tmp_path / "cache")
    assert first.cubin is not None
    whole = first.cubin.read_bytes()
    if damage == "gone":
        first.cubin.unlink()
    else:
        first.cubin.write_bytes(whole[:-200] if damage == "cut" else bytes(len(whole)))
    assert results(sources(kernel, "1"), tmp_path / "cache") == [first]
    assert first.cubin.read_bytes() == whole


def test_two_processes_share_the_cache(kernel: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gemmsim.bench.compile import Source, compile_sources\n"
        "s = [Source(Path(sys.argv[1]), (('VALUE', str(i)),), 'sm_80') for i in range(12)]\n"
        "print(sorted((i, f.status, f.key) for i, f in compile_sources(s, jobs=2, cache=Path(sys.argv[2]))))\n"
    )
    command = [sys.executable, "-c", code, str(kernel), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0] for process in running)
    assert first == second
    assert first.count("'ok'") == 12
    assert len(list((tmp_path / "cache").rglob("*.cubin"))) == 12
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_leaving_early_leaves_whole_entries(kernel: Path, tmp_path: Path) -> None:
    """As Ctrl-C does: what is done is kept, no process stays, nothing partial lies about."""
    given = sources(kernel, *map(str, range(20)))
    running = compile_sources(given, jobs=2, cache=tmp_path / "cache")
    taken = [next(running) for _ in range(3)]
    running.close()
    assert threading.active_count() <= 2
    assert not list((tmp_path / "cache").rglob("*.part"))
    kept = {i for i, _ in taken}
    found = results(given, tmp_path / "cache")
    assert all(found[i] == f for i, f in taken)
    assert len(kept) == 3


def test_a_source_that_does_not_compile_is_a_result(kernel: Path, tmp_path: Path) -> None:
    good, bad = results(sources(kernel, "1", "nonsense"), tmp_path / "cache")
    assert (good.status, bad.status, bad.cubin, bad.regs_per_thread) == ("ok", "compile", None, 0)
    assert bad.reason == 'small.cu(1): error: identifier "nonsense" is undefined'
    assert "nonsense" in bad.log


def test_what_the_assembler_refuses_is_a_result(tmp_path: Path) -> None:
    path = tmp_path / "large.cu"
    path.write_text('extern "C" __global__ void gemm(float* x) { __shared__ float s[99999]; s[threadIdx.x] = *x;'
                    " __syncthreads(); *x = s[5]; }")  # fmt: skip
    (found,) = results([Source(path, (), "sm_80")], tmp_path)
    assert found.status == "compile"
    assert "too much shared data" in found.reason


def test_wgmma_that_is_serialised_and_setmaxnreg_that_is_ignored_do_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "gmma.cu"
    path.write_text(GMMA)
    serialised, ignored, fine = results([Source(path, ((what, "1"),), "sm_90a") for what in ("TOUCH", "DROP", "FINE")],
                                        tmp_path)  # fmt: skip
    assert (serialised.status, serialised.cubin, ignored.status, fine.status) == ("compile", None, "compile", "ok")
    assert serialised.reason.startswith("ptxas: (C7511) Potential Performance Loss: wgmma.mma_async instructions are")
    assert ignored.reason.startswith("ptxas: (C7508) Potential Performance Loss: 'setmaxnreg' ignored")


def test_a_source_without_the_kernel_is_a_result(tmp_path: Path) -> None:
    path = tmp_path / "other.cu"
    path.write_text('extern "C" __global__ void other() {}')
    (found,) = results([Source(path, (), "sm_80")], tmp_path)
    assert (found.status, found.reason) == ("compile", "other.cu has no kernel gemm: it has other")
    assert compile_one(Source(path, (), "sm_80", "other"), cache=tmp_path).status == "ok"


CRASHING = """
import os, signal
from gemmsim.bench.compile_worker import answer, serve
def dying(question):
    if question["macros"]["VALUE"] == "7":
        os.kill(os.getpid(), signal.SIGSEGV)
    if question["macros"]["VALUE"] == "8":
        return {"cubin": None, "log": "OSError: no room", "ptx": None, "fault": True}
    return answer(question)
serve(dying)
"""


def test_a_crash_costs_one_request_and_is_not_kept(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    given = sources(kernel, *"56789")
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(tmp_path))
        patched.setattr(room, "WORKER", "crashing")
        found = results(given, tmp_path / "cache")
    assert [f.status for f in found] == ["ok", "ok", "compile", "compile", "ok"]
    assert "SIGSEGV" in found[2].reason
    assert found[3].reason == "OSError: no room"
    assert [f.status for f in results(given, tmp_path / "cache")] == ["ok"] * 5


def test_ptx_beside_the_cubin(kernel: Path, tmp_path: Path) -> None:
    (plain,) = results(sources(kernel, "1"), tmp_path / "cache")
    assert plain.cubin is not None
    assert not plain.cubin.with_suffix(".ptx").exists()
    (again,) = results(sources(kernel, "1"), tmp_path / "cache", ptx=True)
    assert again == plain
    text = plain.cubin.with_suffix(".ptx").read_text()
    assert ".target sm_90a" in text
    assert ".entry gemm" in text
    assert "\0" not in text


@pytest.mark.parametrize(
    ("gpu", "arch"), [("h200_sxm", "sm_90a"), ("a100_sxm_80gb", "sm_80"), ("b200", "sm_100a"), ("rtx_4090", "sm_89")]
)
def test_arch_of_a_gpu(gpu: str, arch: str) -> None:
    assert arch_of(load_gpu(gpu)) == arch
    nvrtc.check_arch(arch)


@pytest.mark.parametrize("arch", ["sm_70", "sm_61", "sm_999", "gfx942", "sm_"])
def test_an_architecture_without_code_is_one_sentence(arch: str, kernel: Path) -> None:
    with pytest.raises(GemmsimError, match=rf"nvrtc .* cannot compile for {arch}: it has sm_75, "):
        next(compile_sources([Source(kernel, (), arch)]))


def test_a_type_without_a_kernel_is_refused() -> None:
    with pytest.raises(GemmsimError, match="CUDA-core kernels have no A and B in bf16"):
        next(compile_all([request("naive", form=Form("bf16"))]))
    with pytest.raises(GemmsimError, match="family triton has no CUDA kernel"):
        next(compile_all([request("triton")]))


@pytest.mark.parametrize("module", ["cuda.core", "cuda.bindings"])
def test_without_the_compiler_one_sentence(module: str, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc.version.cache_clear()
    nvrtc.architectures.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    try:
        with pytest.raises(GemmsimError, match=r"needs cuda-core and NVRTC: pip install 'gemmsim\[compile\]'"):
            next(compile_sources([Source(kernel, (), "sm_80")]))
    finally:
        nvrtc.version.cache_clear()
        nvrtc.architectures.cache_clear()


def test_version_is_the_wheels() -> None:
    from importlib import metadata

    assert nvrtc.version() == f"nvrtc {metadata.version('nvidia-cuda-nvrtc')}"
