"""Counts of the main loop: on a listing by hand, and on compiled kernels against what their tiles say."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from gemmsim.bench import sass
from gemmsim.bench.compile import Request, compile_all
from gemmsim.errors import GemmsimError
from gemmsim.families import register_tile
from gemmsim.problem import Form

LISTING = """\
	.section	.text.reduce,"ax",@progbits
.text.reduce:
.L_x_9:
        /*0000*/                   FFMA R1, R2, R3, R1 ;
        /*0010*/               @P0 BRA `(.L_x_9) ;
	.section	.text.gemm,"ax",@progbits
.text.gemm:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   FFMA R9, R2, R4, R9 ;
.L_x_0:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_1:
        /*0030*/                   STS [R1], R4 ;
        /*0040*/              @!P1 BRA `(.L_x_1) ;
        /*0050*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0058*/              @!PT LDS RZ, [RZ] ;
        /*0060*/                   LDS.128 R8, [R5] ;
        /*0070*/                   LDS.64 R16, [R5+0x10] ;
        /*0080*/                   LDS R20, [R5+0x20] ;
        /*0090*/                   LDGSTS.E.BYPASS.128 [R7], desc[UR4][R2.64] ;
        /*00a0*/                   LDL R30, [R1] ;
        /*00b0*/                   FFMA R40, R8, R9.reuse, R40 ;
        /*00c0*/                   FFMA R41, R10, R9, R41 ;
        /*00d0*/                   FFMA R42, R8, R10, R42 ;
        /*00e0*/                   IMAD.WIDE R2, R3, 0x4, R2 ;
        /*00f0*/                   IADD3 R7, R7, 0x1, RZ ;
        /*0100*/                   UIADD3 UR5, UR5, 0x1, URZ ;
        /*0110*/               @P0 BRA `(.L_x_0) ;
.L_x_2:
        /*0120*/                   FFMA R9, R2, R4, R9 ;
        /*0130*/              @!P0 BRA `(.L_x_2) ;
        /*0140*/                   EXIT ;
.L_x_3:
        /*0150*/                   BRA `(.L_x_3);
"""


def test_listing() -> None:
    loop = sass._counted(*sass._parsed(LISTING, "gemm"), (3.0,))  # the loop within goes round twice more
    assert loop == sass.Loop(
        instructions=17, math=3, lds32=1, lds64=1, lds128=1, sts=1, ldgsts=1, ldg=1, local=1, integer=2, barriers=1,
        other=4, step=pytest.approx(17 + 4), reads=pytest.approx(8 / 3), bank_clk=pytest.approx((2 + 1 + 3) / 3),
        outside=6, outside_math=2,
    )  # fmt: skip
    assert sass.columns(loop)["sass_lds128"] == "1"
    unknown = sass._counted(*sass._parsed(LISTING, "gemm"))
    assert unknown is not None
    assert sass.columns(unknown)["sass_step"] == ""
    reduce = sass._counted(*sass._parsed(LISTING, "reduce"))
    assert reduce is not None
    assert (reduce.instructions, reduce.math) == (2, 1)
    assert sass._counted(*sass._parsed(LISTING, "none")) is None


def test_a_fused_epilogue_is_not_the_product() -> None:
    """A persistent kernel, whose epilogue, in the loop over tiles, has more multiply-adds than the inner loop HGMMA."""
    listing = """\
	.section	.text.gemm,"ax",@progbits
.L_x_0:
        /*0010*/                   FFMA R9, R2, R4, R9 ;
.L_x_1:
        /*0020*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
        /*0040*/                   FFMA R9, R2, R4, R9 ;
        /*0050*/                   FFMA R9, R2, R4, R9 ;
        /*0060*/               @P1 BRA `(.L_x_0) ;
"""
    loop = sass._counted(*sass._parsed(listing, "gemm"))
    assert loop is not None
    assert (loop.instructions, loop.math, loop.outside, loop.outside_math) == (2, 1, 4, 0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_register_tile_multiplies_what_its_tile_says(arch: str, tmp_path: Path) -> None:
    """Multiply-adds and fragment reads are exact; instructions are within a quarter of what the family assumes."""
    pytest.importorskip("cuda.core")
    tiles = [(64, 64, 16, 4, 4), (128, 128, 8, 8, 8), (128, 64, 16, 8, 4), (64, 64, 8, 2, 2)]
    requests = [
        Request("register_tile", Form("fp32"), tuple(zip(("bm", "bn", "bk", "tm", "tn"), tile, strict=True)), arch)
        for tile in tiles
    ]
    found = dict(compile_all(requests, cache=tmp_path))
    for i, (bm, bn, bk, tm, tn) in enumerate(tiles):
        path = found[i].cubin
        assert path is not None
        copies = (bm * bk / (bm // tm * (bn // tn)), bn * bk / (bm // tm * (bn // tn)))
        loop = sass.main_loop(path, "gemm", copies)
        assert loop is not None
        assert loop.math == bk * tm * tn
        assert 4 * loop.lds128 + 2 * loop.lds64 + loop.lds32 == bk * (tm + tn)
        assert loop.barriers == 2
        assert loop.local == 0
        assert loop.ldg >= 2
        assert loop.sts == loop.ldg
        assert 1 <= loop.bank_clk <= 3
        assert loop.outside_math == 0
        assert loop.math < loop.step <= loop.instructions + 1
        assert loop.instructions > loop.math + loop.lds128
        chain = register_tile.STEP_INSTRUCTIONS + register_tile.COPY_INSTRUCTIONS * sum(copies) + bk * (tm + tn) / 4
        if min(copies) >= 1:  # else some warps pass a whole loop by
            assert loop.step - loop.math == pytest.approx(chain, rel=0.25)


def test_program_from_path_or_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", none)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GemmsimError, match=r"--sass needs nvdisasm: pip install 'gemmsim\[compile\]'"):
        sass.nvdisasm()
    program = tmp_path / "nvdisasm"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    assert sass.nvdisasm() == str(program)


def test_other_bytes_are_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("cuda.core")
    (tmp_path / "x.cubin").write_bytes(b"no cubin")
    with pytest.raises(GemmsimError, match=r"x\.cubin: nvdisasm cannot read it"):
        sass.main_loop(tmp_path / "x.cubin", "gemm")
