"""A process that compiles Triton kernels, one request a line, until its input ends."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from gemmsim.bench.compile_worker import serve


def main() -> None:
    """Answer each line of JSON (the arguments of compile_kernel) with one, see `answer`."""
    serve(answer, _load)


def _load() -> None:
    import triton.backends.compiler
    import triton.compiler  # noqa: F401


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """`cubin` in base64 and, as `log`, JSON: the kernel's name, warps, bytes of shared memory; or the error."""
    try:
        made = compile_kernel(**question)
    except (OSError, MemoryError, ImportError) as error:
        return {"cubin": None, "log": _sentence(error), "ptx": None, "fault": True}
    except Exception as error:  # Triton's own, MLIR's, ptxas': all of them say that this kernel is not to be had
        return {"cubin": None, "log": _sentence(error), "ptx": None}
    meta = made.metadata
    said = {"name": meta.name, "num_warps": meta.num_warps, "shared": meta.shared,
            "global_scratch": meta.global_scratch_size}  # fmt: skip
    cubin = base64.b64encode(made.asm["cubin"]).decode()
    return {"cubin": cubin, "log": json.dumps(said), "ptx": made.asm["ptx"]}


def compile_kernel(
    path: str, kernel: str, signature: dict[str, str], constants: dict[str, int], aligned: list[str],
    capability: int, num_warps: int, num_stages: int,
) -> Any:  # fmt: skip
    """Triton's compiled kernel, with no GPU and no driver. aligned: arguments known to be multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(path, kernel)
    places = {name: i for i, name in enumerate(signature)}
    attrs = {(places[name],): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(function, signature=signature, constexprs=constants, attrs=attrs)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _function(path: str, name: str) -> Any:
    module = sys.modules.get("gemmsim_triton_kernel")
    if module is None:
        spec = importlib.util.spec_from_file_location("gemmsim_triton_kernel", Path(path))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["gemmsim_triton_kernel"] = module
        spec.loader.exec_module(module)
    return getattr(module, name)


def _sentence(error: Exception) -> str:
    """What went wrong, in the error's own words: type and first lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:2000]}"


if __name__ == "__main__":
    main()
