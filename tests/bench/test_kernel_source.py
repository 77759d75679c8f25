"""What a family's kernels are made of, and compilers that live as long as a session."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from gemmsim import families
from gemmsim.bench import kernel_source
from gemmsim.bench.kernel_source import KernelCompiler, source_digest
from gemmsim.bench.task import Ask
from gemmsim.errors import GemmsimError
from gemmsim.hardware import load_gpu
from gemmsim.paths import data_folder
from gemmsim.problem import form_of


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the kernels that a test may change."""
    for file in data_folder("kernels").rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(data_folder("kernels"))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    monkeypatch.setattr(kernel_source, "data_folder", lambda name: tmp_path)
    return tmp_path


def test_every_family_has_a_digest_of_its_own() -> None:
    assert len({source_digest(family) for family in families.FAMILIES}) == len(families.FAMILIES)
    with pytest.raises(GemmsimError, match="cublas"):
        source_digest("cublas")


@pytest.mark.parametrize(("family", "file"), [("simt", "simt.cu"), ("triton", "triton_gemm.py")])
def test_a_digest_follows_the_code_and_not_what_is_said_of_it(kernels: Path, family: str, file: str) -> None:
    before, path = source_digest(family), kernels / file
    code, mark = path.read_text(), "//" if file.endswith(".cu") else "#"
    path.write_text(f"{mark} said first\n{code}\n{mark} and last\n")
    assert source_digest(family) == before
    more = "int more;" if file.endswith(".cu") else "more = 1"
    path.write_text(f"{code}\n{more}\n")
    assert source_digest(family) != before


def test_a_digest_follows_headers(kernels: Path) -> None:
    before = source_digest("simt")
    source = _text(kernels / "simt.cu")
    header = next(f for f in sorted(kernels.rglob("*.cuh")) if f'"{f.relative_to(kernels)}"' in source)
    header.write_text(_text(header) + "\n/* said\n of it */ // twice\n")
    assert source_digest("simt") == before
    header.write_text(_text(header) + "\nint more;\n")
    assert source_digest("simt") != before


def _text(path: Path) -> str:
    return path.read_text()


def test_tritons_digest_follows_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for version in ("3.6.0", "3.9.0", None):

        def installed(name: str, version: str | None = version) -> str:
            if version is None:
                raise metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(kernel_source.metadata, "version", installed)
        found.add(source_digest("triton"))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"a /* b\n c */ d // e\n\n  // f\ng", b"a   d\ng"),
        (b'print("// no") // yes', b'print("// no")'),
        (b"x = '\"'; // \"\ny /* ' */ z", b"x = '\"';\ny   z"),
        (b'"a\\"// b" /* c */', b'"a\\"// b"'),
    ],
)
def test_comments_are_told_from_what_looks_like_them(text: bytes, code: bytes) -> None:
    assert kernel_source._cuda_code(text) == code


def test_compilers_stay_from_one_ask_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSIM_CACHE", str(tmp_path))
    tile = {"bm": 64, "bn": 64, "tm": 4, "tn": 4}
    asks = [Ask(64, 64, 64, form_of("fp32"), "register_tile", tuple({**tile, "bk": bk}.items())) for bk in (8, 16, 32)]
    compiler, gpu, seen = KernelCompiler(2), load_gpu("h200_sxm"), []
    try:
        compiler.expect(asks[:1])
        for ask in asks:
            found = list(compiler.compiled([ask], gpu))
            assert [(i, error, Path(kernel.path).is_file()) for i, error, kernel in found] == [(0, "", True)]
            seen.append({worker._process.pid for worker in compiler._cuda._workers})
        assert seen[0] == seen[1] == seen[2]
        assert len(seen[0]) == 1
        assert not compiler._triton._workers
    finally:
        compiler.close()
    assert not compiler._cuda._workers
