"""Wrong input: exit code 2, one sentence that names the bad value and where it stood, nothing half-written."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gemmsim import GemmsimError, predict
from gemmsim.cli import main
from gemmsim.model.demand import TERMS
from gemmsim.paths import data_folder

G = ("--gpu", "h200_sxm")
FREE = tuple(x for term in TERMS for x in ("--without", term))
ONE = ("predict", "64", "64", "64", *G)
#: arguments -> what the sentence must hold: the value found and its place
LINES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("predict", "0", "64", "64", *G): ("M", "'0'", "whole number from 1 to 2147483647"),
    ("predict", "64", "-5", "64", *G): ("M N K", "'-5'"),
    ("predict", "64", "64", "2147483648", *G): ("K", "'2147483648'"),
    ("predict", "64", "9223372036854775808", "64", *G): ("N", "'9223372036854775808'"),
    ("rank", "64", "1" * 5000, "64", *G): ("N", "expected a whole number"),
    ("predict", "64", "1.5", "64", *G): ("N", "'1.5'"),
    ("rank", "1e3", "64", "64", *G): ("M", "'1e3'"),
    ("explain", "64", "64", "k", *G): ("K", "'k'"),
    ("explain", "64", "64", "nan", *G): ("K", "'nan'"),
    ("predict", "64", "64", *G): ("M N K", "2 values (64 64)"),
    ("predict", "64", "64", "64", "64", *G): ("M N K", "4 values"),
    ("predict", "64", "64", "64"): ("--gpu", "missing"),
    (*ONE, "--colour", "red"): ("--colour",),
    ("predict", "64", "64", "64", "--gpu", "h300"): ("'h300'", "GPU", "h200_sxm"),
    ("rank", "64", "64", "64", "--gpu", "h100"): ("'h100'", "h100_nvl", "h100_pcie", "h100_sxm"),
    ("predict", "64", "64", "64", "--gpu", "./none.yaml"): ("none.yaml",),
    (*ONE, "--family", "cutlas"): ("--family", "'cutlas'", "triton"),
    ("rank", "64", "64", "64", *G, "--family", "cutlas"): ("--family", "'cutlas'", "all"),
    (*ONE, "--without", "air"): ("--without", "'air'", "latency"),
    (*ONE, "-p", "warps_per_block=8"): ("-p", "'warps_per_block'", "num_warps"),
    (*ONE, "-p", "num_warps"): ("-p", "'num_warps'", "NAME=VALUE"),
    (*ONE, "-p", "num_warps=four"): ("-p num_warps", "'four'"),
    (*ONE, "-p", "bm=0"): ("-p bm", "'0'"),
    (*ONE, "--tile", "128x128x64", "-p", "BLOCK_M=64"): ("bm", "twice"),
    (*ONE, "--tile", "128x128"): ("--tile", "'128x128'", "128x128x64"),
    (*ONE, "--tile", "128x128x64_q8"): ("--tile", "'128x128x64_q8'"),
    (*ONE, "--tile", "128x0x64"): ("--tile", "'0'"),
    (*ONE, "--dtype", "bf17"): ("--dtype", "'bf17'", "bf16"),
    (*ONE, "--dtype", "fp64", "--family", "triton"): ("--dtype", "'fp64'", "triton has bf16", "simt would do"),
    (*ONE, "--dtype", "fp8", "--family", "mma"): ("--dtype", "'fp8'", "family triton or wgmma would do"),
    (*ONE, "--dtype", "int8", "--family", "mma"): ("layout NN", "it has NT", "family triton or wmma would do"),
    (*ONE, "--dtype", "fp8", "--family", "wgmma"): ("layout NN", "it has NT", "family triton would do"),
    (*ONE, "--dtype-b", "fp8", "--family", "mma"): ("B in fp8", "family triton would do"),
    (*ONE, "--dtype", "fp32", "--batch-size", "3"): ("no kernel with batch: it does one problem a launch",),
    ("compile", *G, "--dtype", "int8", "--family", "mma"): ("layout NN", "family triton or wmma would do"),
    (*ONE, "--l2", "hot"): ("--l2", "'hot'", "cold_clean, cold_dirty, warm"),
    (*ONE, "--format", "xml"): ("--format", "'xml'"),
    (*ONE, "--num-sms", "0"): ("--num-sms", "'0'"),
    (*ONE, "--num-sms", "133"): ("133", "132"),
    (*ONE, "--num-sms", "-1"): ("--num-sms", "'-1'"),
    (*ONE, "--calibration", "none.yaml"): ("calibration none.yaml", "No such file"),
    (*ONE, "--calibration", "FAMILY"): ("'register_tile'", "expected 'triton'"),
    (*ONE, "--calibration", "TEXT"): ("not_yaml.yaml", "YAML"),
    ("rank", "64", "64", "64", *G, "--top", "0"): ("--top", "'0'"),
    ("rank", "64", "64", "64", *G, "--top", "many"): ("--top", "'many'"),
    (*ONE, "--out", "no_folder/x.csv"): ("--out no_folder/x.csv", "'no_folder'"),
    (*ONE, "--no-facts"): ("--no-facts", "--batch"),
    ("predict", "--batch", "none.csv", *G): ("none.csv", "No such file"),
    ("predict", "--batch", ".", *G): (".", "Is a directory"),
    (*ONE, "--batch", "8"): ("--batch 8", "--batch-size 8"),
    ("predict", "64", "64", "64", "--batch", "in.csv", *G): ("M N K 64 64 64", "--batch"),
    ("predict", "--batch", "in.csv", "--tile", "64x64x64", *G): ("--tile 64x64x64", "--batch"),
    ("predict", "--batch", "in.csv", "--format", "json", *G): ("--format json", "csv"),
    ("predic", "64", "64", "64"): ("'predic'",),
    (*ONE, "--tile", "256x256x256_w4s4"): (
        "256x256x256_w4s4g8", "smem_capacity", "1048576 B", "limit 232448", "nearest that fit",
    ),
    ("split", "64", "64", *G): ("M N K", "2 values"),
    ("split", "64", "64", "64"): ("--gpu", "missing"),
    ("split", "64", "64", "64", *G, "--family", "cutlas"): ("--family", "'cutlas'", "triton"),
    ("split", "64", "64", "64", *G, "--dtype", "bf17"): ("--dtype", "'bf17'", "bf16"),
    ("split", "64", "64", "64", *G, "-p", "split=2"): ("-p", "'split'", "split_k"),
    ("split", "64", "64", "64", *G, "-p", "split_k=2"): ("-p split_k=2", "compared"),
    ("split", "64", "64", "64", *G, "--tile", "512x512x64"): ("bm=512 bn=512 bk=64", "no configuration of simt"),
    ("split", "64", "64", "64", *G, "--without", "waves"): ("--without",),
    ("split", "64", "64", "64", *G, "--out", "no_folder/x.csv"): ("--out no_folder/x.csv", "'no_folder'"),
    ("simulate", "64", "64"): ("M N K", "2 values"),
    ("simulate", "64", "64", "64"): ("--gpu", "missing"),
    ("simulate", "64", "64", "64", *G, "--raster", "spiral"): ("--raster", "'spiral'", "hilbert"),
    ("simulate", "64", "64", "64", *G, "--cluster", "2"): ("--cluster is '2'", "MxN"),
    ("simulate", "64", "64", "64", *G, "--cluster", "0x1"): ("--cluster is '0x1'", "from 1"),
    ("simulate", "384", "384", "64", *G, "--cluster", "2x1"): ("cluster of 2 x 1", "3 x 3 tiles"),
    ("simulate", "64", "64", "64", *G, "--tile", "512x512x64", "--trace", "t.json"): ("512x512x64", "nearest"),
    ("simulate", "64", "64", "64", *G, "--trace", "no/t.json"): ("--trace no/t.json", "'no'"),
    ("simulate", "60000", "60000", "64", *G, "--tile", "16x16x64", "-p", "num_warps=1", "--trace", "t.json"):
        ("trace t.json", "14062500 blocks", "fewer"),
    ("simulate", "64", "64", "64", *G, "--no-facts"): ("--no-facts", "--batch"),
    ("simulate", "64", "64", "64", *G, "--without", "dram"): ("--without",),
    ("simulate", "--batch", "in.csv", *G, "--trace", "t.json"): ("--trace t.json", "one configuration"),
    ("simulate", "--batch", "in.csv", *G, "--raster", "row"): ("--raster row", "one configuration"),
    ("simulate", "--batch", "in.csv", *G, "--persistent"): ("--persistent", "one configuration"),
    ("simulate", "--batch", "in.csv", *G, "--tile", "64x64x64"): ("--tile 64x64x64", "columns of in.csv"),
    ("simulate", "--batch", "in.csv", *G, "--format", "json"): ("--format json", "csv"),
    ("simulate", "--batch", "in.csv", "--out", "out.csv"): ("--gpu", "missing"),
    ("simulate", "--batch", "in.csv", *G, "--out", "./in.csv"): ("--out ./in.csv", "--batch"),
    ("predict", "--batch", "in.csv", *G, "--out", "./in.csv"): ("--out ./in.csv", "--batch"),
    ("simulate", "64", "64", "64", *G, "--out", "t.json", "--trace", "t.json"): ("t.json", "--out", "--trace"),
    ("simulate", "--batch", "", *G): ("--batch is ''", "name of a CSV"),
    ("simulate", "64", "64", "64", *G, "--trace", "x", "--out", "x"): ("--trace x", "--out"),
    ("raster", "64", "64"): ("M N K", "2 values"),
    ("raster", "64", "64", "64"): ("--gpu", "missing"),
    ("raster", "64", "64", "64", *G, "--l2", "warm"): ("L2", "warm", "cold_clean"),
    ("raster", "64", "64", "64", *G, "-p", "group=2"): ("-p", "'group'", "group_m"),
    ("raster", "64", "64", "64", *G, "--tile", "512x512x64"): ("512x512x64", "nearest"),
    ("raster", "64", "64", "64", *G, "--out", "no_folder/x.csv"): ("--out no_folder/x.csv", "'no_folder'"),
    (*ONE, "--epilogue", "bias,tanh"): ("--epilogue", "'tanh'", "gelu"),
    (*ONE, "--epilogue", "bias,"): ("--epilogue", "''"),
    (*ONE, "--layout", "XY"): ("--layout", "'XY'", "NN, NT, TN, TT"),
    (*ONE, "--dtype-b", "int4"): ("--dtype-b", "'int4'", "int8"),
    (*ONE, "--dtype-b", "fp32"): ("dtype_b = fp32", "narrower"),
    (*ONE, "--batch-size", "0"): ("--batch-size", "'0'"),
    (*ONE, "--batch-size", "many"): ("--batch-size", "'many'"),
    (*ONE, "--family", "register_tile", "--layout", "TN"): ("register_tile", "TN", "NN"),
    (*ONE, "--family", "naive", "--beta"): ("naive", "beta"),
    (*ONE, *FREE): ("without math", "nothing is left"),
    (*ONE, "--calibration", "DATE"): ("date.yaml", "month"),
    (*ONE, "--calibration", "TWICE"): ("twice.yaml:2", "'family' is there twice"),
    (*ONE, "--out", ""): ("--out is ''",),
    (*ONE[:-1], "a\nb"): ("unknown GPU 'a\\nb'",),
    ("predict", "64", "64", "64", "--gpu", "t4", "--dtype", "bf16"): ("t4", "bf16", "fp16"),
    ("predict", "64", "64", "64", "--gpu", "h200_sxm:9g.1gb"): ("'9g.1gb'", "h200_sxm", "1g.18gb"),
    ("predict", "64", "64", "64", "--gpu", "t4:1g.5gb"): ("t4", "'1g.5gb'"),
    ("predict", "64", "64", "64", "--gpu", "h200_sxm:1g.18gb", "--num-sms", "17"): ("17", "16", "h200_sxm:1g.18gb"),
    ("occupancy", *G, "--blocks", "0"): ("--blocks", "'0'"),
    ("occupancy", *G, "--blocks", "33"): ("33 blocks", "at most 32"),
    ("occupancy", *G, "--blocks", "2", "--regs", "64"): ("--regs 64", "--blocks"),
    ("occupancy", "--blocks", "2"): ("--gpu", "missing"),
    ("occupancy", *G, "--threads", "64"): ("--regs", "missing"),
    ("occupancy", *G, "--threads", "x", "--regs", "32"): ("--threads", "'x'", "whole number"),
    ("occupancy", *G, "--threads", "-5", "--regs", "32"): ("--threads", "'-5'", "whole number"),
    ("specs", "show", "h100"): ("'h100'", "h100_nvl"),
    ("specs", "compare", "h200_sxm"): ("h200_sxm", "two GPUs"),
    ("specs", "compare", "h200_sxm", "t4", "--chart", "x.pdf"): ("--chart x.pdf", ".html, .svg or .png"),
    ("specs", "compare", "h200_sxm", "t4", "--chart", "no/x.svg"): ("--chart no/x.svg", "'no'"),
    ("specs", "compare", "h200_sxm", "t4", "--chart", "x.svg", "--out", "./x.svg"): ("x.svg", "expected another file"),
    ("validate", "--rows", "none.csv"): ("none.csv", "No such file"),
    ("validate", "--rows", "ROWS", "--sample", "0"): ("--sample", "0"),
    ("validate", "--rows", "ROWS", "--sample", "330"): ("330 of 330", "fewer"),
    ("validate", "--rows", "ROWS", "--sample", "12"): ("12 rows of 330", "need 21"),
    ("validate", "--rows", "ROWS", "--sample", "9", "--split", "config"): ("--sample 9", "--split config"),
    ("validate", "--rows", "ROWS", *FREE): ("without", "math", "nothing is left"),
    ("validate", "--rows", "ROWS", "--split", "config", *FREE): ("without", "math", "nothing is left"),
    ("validate", "--rows", "ROWS", "--split", "rows"): ("--split", "'rows'", "config, shape"),
    ("validate", "--rows", "ROWS", "--fit-with", "ROWS"): ("--fit-with", "--split"),
    ("validate", "--rows", "ROWS", "--dtype", "bf16"): ("dtype", "fp32", "bf16"),
    ("validate", "--rows", "ROWS", "--rows", "OTHER"): ("naive", "smem_tile", "not mixed"),
    ("calibrate", "--rows", "in.csv", *G): ("in.csv", "no column family"),
    ("calibrate", "--rows", "ROWS", "--seeds", "101"): ("--seeds", "'101'"),
    ("calibrate", "--rows", "ROWS", "--gpu", "t4"): ("h200_sxm", "--gpu says t4"),
    ("calibrate", "--rows", "ROWS", "--out", "no/x.yaml"): ("--out no/x.yaml", "'no'"),
    ("calibrate", "--rows", "ROWS", "--seeds", "0", "--kernel", "none.cu"): ("none.cu", "No such file"),
    ("compare", "64", "64", "64"): ("--gpus is missing", "A,B"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm,"): ("--gpus", "'h200_sxm,'"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm,h300"): ("'h300'", "GPU"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm,h200_sxm"): ("h200_sxm", "twice"),
    ("compare", "--gpus", "h200_sxm"): ("none of M N K, --workload and --shapes",),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--shapes", "in.csv"): ("M N K and --shapes",),
    ("compare", "64", "64", "--gpus", "h200_sxm"): ("M N K", "2 values"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--tokens", "8"): ("--tokens 8", "--workload"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--weights", "fp8"): ("--weights fp8", "--workload"),
    ("compare", "--workload", "none.json", "--gpus", "h200_sxm"): ("--tokens is missing",),
    ("compare", "--workload", "none.json", "--tokens", "8", "--gpus", "h200_sxm"): ("none.json",),
    ("compare", "--workload", "n.json", "--tokens", "8", "--beta", "--gpus", "h200_sxm"): ("--beta", "--workload"),
    ("compare", "--shapes", "none.csv", "--gpus", "h200_sxm"): ("none.csv",),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--baseline", "t4"): ("'t4'", "h200_sxm"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--family", "cutlas"): ("--family", "'cutlas'", "all"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--l2", "hot"): ("--l2", "'hot'"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm,a100_sxm_80gb", "--dtype", "fp8"): ("a100_sxm_80gb", "fp8"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "tdp_w"): ("--set", "'tdp_w'", "FIGURE=VALUE"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "tdp_w=many"): ("--set", "'tdp_w=many'"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "tdp_v=500"): ("'tdp_v'", "tdp_w"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "tdp_w=nan"): ("tdp_w is nan", "20 to 3000 W"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "t4:tdp_w=90"): ("'t4'", "h200_sxm"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "tdp_w=500", "--set", "tdp_w=6e2"): ("tdp_w", "twice"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", "sm_count=1_00"): ("'sm_count=1_00'", "FIGURE=VALUE"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--set", ":sm_count=9"): ("':sm_count=9'", "FIGURE=VALUE"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--chart", "c.pdf"): ("--chart c.pdf", ".html"),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--chart", "c.svg", "--out", "c.svg"): ("another file",),
    ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--out", "no/x.csv"): ("--out no/x.csv", "'no'"),
    ("pad", "64", "64", "64"): ("--gpu", "missing"),
    ("pad", "64", "64", "64", *G, "--family", "al"): ("--family", "'al'", "did you mean all?"),
    ("pad", "64", "0", "64", *G): ("N", "'0'"),
    ("pad", "64", "64", *G): ("M N K", "2 values"),
    ("pad", "64", "64", "64", *G, "--family", "cutlas"): ("--family", "'cutlas'"),
    ("pad", "64", "64", "64", *G, "--layout", "XY"): ("--layout", "'XY'", "NT"),
    ("pad", "64", "64", "510", *G, "--family", "wgmma"): ("no configuration of wgmma", "TMA"),
    ("pad", "64", "64", "64", *G, "--num-sms", "133"): ("133", "132"),
    ("pad", "64", "64", "64", *G, "--out", "no/x.csv"): ("--out no/x.csv", "'no'"),
    ("study", "run", "nope"): ("'nope'", "llama2_7b"),
    ("study", "run", "llama2_7b", "--gpus", "h200_sxm,h200_sxm"): ("--gpus[1]", "twice"),
    ("study", "run", "llama2_7b", "--gpus", "t4"): ("--gpus[0]", "t4", "bf16"),
    ("study", "run", "llama2_7b", "--out", "no/way/x"): ("--out no/way/x", "'no/way'"),
    ("study", "run", "llama2_7b", "--out", ""): ("--out is ''",),
    (*ONE, "-p", "num_warps=3"): ("128x128x64_w3s3g8", "power of two", "nearest that fit: 128x128x64_w4s3g8"),
}  # fmt: skip
RECORDED = data_folder("studies") / "h200"
#: file that a word of a command line above stands for
FILES = {
    "TEXT": "not_yaml.yaml", "DATE": "date.yaml", "TWICE": "twice.yaml",
    "ROWS": str(RECORDED / "naive_fp32.csv.gz"), "OTHER": str(RECORDED / "smem_tile_fp32.csv.gz"),
}  # fmt: skip
HEAD, ROW = "m,n,k,bm,bn,bk,num_warps", "64,64,64,128,128,64,8"
#: a batch's text -> what the sentence must hold
BATCHES: dict[bytes, tuple[str, ...]] = {
    b"": ("in.csv", "empty file"),
    f"{HEAD}\n".encode(): ("in.csv", "none"),
    f"{HEAD}\n{ROW}\n64,64\n".encode(): ("row 2 (line 3)", "found 2"),
    f"{HEAD},m\n{ROW},1\n".encode(): ("'m'", "twice"),
    f"{HEAD}\n{ROW}\n".encode("utf-16"): ("in.csv", "UTF-8", "0xff"),
    b"m,n,bm,bn,bk\n1,1,16,16,16\n": ("no column k", "found m, n, bm"),
    b"m,n,k,bm,bn\n1,1,1,16,16\n": ("no column bk",),
    f"{HEAD}\n{ROW}\n0{ROW[2:]}\n".encode(): ("row 2 (line 3), column m", "'0'"),
    f"{HEAD}\n-1{ROW[2:]}\n".encode(): ("row 1 (line 2), column m", "'-1'"),
    f"{HEAD}\n1.5{ROW[2:]}\n".encode(): ("column m", "'1.5'"),
    f"{HEAD}\n2147483648{ROW[2:]}\n".encode(): ("column m", "'2147483648'"),
    f"{HEAD}\n9223372036854775809{ROW[2:]}\n".encode(): ("column m", "'9223372036854775809'"),
    f"{HEAD}\n{ROW[:-1]}many\n".encode(): ("column num_warps", "'many'"),
    f"{HEAD}\n{ROW[:-1]}nan\n".encode(): ("column num_warps", "'nan'"),
    b"m,n,k,bm,bn,bk\n64,64,64,128,128,\n": ("row 1 (line 2), column bk", "''"),
    f"{HEAD},dtype\n{ROW},bf16\n{ROW},bf17\n".encode(): ("row 2 (line 3), column dtype", "'bf17'"),
    f"{HEAD},dtype,family\n{ROW},fp32,triton\n".encode(): ("column dtype", "'fp32'", "triton has bf16"),
    f"{HEAD},gpu\n{ROW},h200_sxm\n{ROW},h300\n".encode(): ("row 2 (line 3), column gpu", "'h300'"),
    f"{HEAD},family\n{ROW},cutlas\n".encode(): ("row 1 (line 2), column family", "'cutlas'"),
    f"{HEAD},l2\n{ROW},hot\n".encode(): ("row 1 (line 2), column l2", "'hot'"),
    f"{HEAD},regs\n{ROW},many\n".encode(): ("column regs", "'many'"),
    f"{HEAD},spill_bytes\n{ROW},-4\n".encode(): ("column spill_bytes", "'-4'"),
    f"{HEAD},regs\n{ROW},0\n".encode(): ("column regs", "'0'"),
    f"{HEAD},regs\n{ROW},12.5\n".encode(): ("column regs", "'12.5'"),
    f"{HEAD},smem_bytes\n{ROW},inf\n".encode(): ("column smem_bytes", "'inf'"),
    f"{HEAD},smem_bytes\n{ROW},1e300\n".encode(): ("column smem_bytes", "'1e300'"),
    f"{HEAD},gpu\n{ROW},a\0.yaml\n".encode(): ("a\\x00.yaml", "null byte"),
    f"{HEAD},gpu\n{ROW},t4\n".encode(): ("--dtype is 'bf16'", "row 1 (line 2), column gpu", "fp16"),
    f"{HEAD},layout\n{ROW},XY\n".encode(): ("row 1 (line 2), column layout", "'XY'"),
    f"{HEAD},batch\n{ROW},0\n".encode(): ("row 1 (line 2), column batch", "'0'"),
    f"{HEAD},beta\n{ROW},2\n".encode(): ("row 1 (line 2), column beta", "'2'"),
    f"{HEAD},epilogue\n{ROW},tanh\n".encode(): ("row 1 (line 2), column epilogue", "'tanh'"),
    f"{HEAD},dtype_b\n{ROW},fp32\n".encode(): ("row 1 (line 2)", "dtype_b = fp32"),
    f'{HEAD},note\n{ROW},"a\n'.encode(): ("line 2", "broken cell"),
    f"{HEAD},in_time_s,in_time_s\n{ROW},1,2\n".encode(): ("'in_time_s'", "twice"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(f"{HEAD}\n{ROW}\n")
    (tmp_path / "FAMILY").write_text("family: register_tile\n")
    (tmp_path / "not_yaml.yaml").write_text("{")
    (tmp_path / "date.yaml").write_text("family: triton\nday: 2026-13-45\n")
    (tmp_path / "twice.yaml").write_text("family: triton\nfamily: triton\n")


def refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: tuple[str, ...]) -> None:
    before = sorted(p.name for p in Path().iterdir())
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert caught.value.code == 2
    assert out == ""
    assert err.startswith("gemmsim: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for name in names:
        assert name in err
    assert sorted(p.name for p in Path().iterdir()) == before


@pytest.mark.parametrize("arguments", LINES, ids=lambda a: " ".join(a)[:60])
def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    names = LINES[arguments]
    refused(capsys, tuple(FILES.get(a, a) for a in arguments), names)


@pytest.mark.parametrize("verb", ["predict", "simulate"])
@pytest.mark.parametrize("text", BATCHES, ids=lambda t: repr(t)[2:60])
def test_a_wrong_batch(capsys: pytest.CaptureFixture[str], text: bytes, verb: str) -> None:
    Path("in.csv").write_bytes(text)
    refused(capsys, (verb, "--batch", "in.csv", *G, "--out", "out.csv"), (*BATCHES[text], "in.csv"))


def test_a_batch_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, ("predict", "--batch", "in.csv"), ("--gpu", "missing", "column gpu"))
    Path("in.csv").write_text(f"{HEAD},gpu\n{ROW},h200_sxm\n{ROW},\n")
    refused(capsys, ("predict", "--batch", "in.csv"), ("row 2 (line 3), column gpu", "missing"))


def test_an_output_folder_that_is_not_there_is_refused_before_work(capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, ("predict", "--batch", "none.csv", *G, "--out", "no/out.csv"), ("--out no/out.csv", "'no'"))
    refused(capsys, ("rank", "64", "64", "64", *G, "--out", "."), ("--out .", "folder"))


def test_an_output_folder_that_cannot_be_written_is_refused_before_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))
    refused(capsys, ("predict", "--batch", "none.csv", *G, "--out", "out.csv"), ("--out out.csv", str(tmp_path)))


# ------------------------------------------------------------------------------------------------ files that fail

WRITERS: dict[str, tuple[str, ...]] = {
    "predict": (*ONE, "--out", "out.txt"),
    "rank": ("rank", "64", "64", "64", *G, "--out", "out.txt"),
    "batch": ("predict", "--batch", "in.csv", *G, "--out", "out.csv"),
    "batch.gz": ("predict", "--batch", "in.csv", *G, "--out", "out.csv.gz"),
    "chart": ("specs", "compare", "h200_sxm", "t4", "--chart", "out.svg"),
    "compare": ("compare", "64", "64", "64", "--gpus", "h200_sxm", "--out", "out.csv"),
    "pad": ("pad", "64", "64", "64", *G, "--out", "out.json"),
    "calibrate": ("calibrate", "--rows", FILES["ROWS"], "--seeds", "0", "--out", "out.yaml"),
}


def failing(error: BaseException) -> Any:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_disk_that_is_full_or_read_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, writer: str, code: int
) -> None:
    """At the last step: all is written, and the file cannot take its name."""
    monkeypatch.setattr(os, "replace", failing(OSError(code, os.strerror(code))))
    refused(capsys, WRITERS[writer], ("out.", "cannot be written", os.strerror(code)))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_disk_that_is_full_while_a_file_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    opened = open

    def full(name: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        return io.BufferedWriter(Full(name, "xb")) if "x" in mode else opened(name, mode, *arguments, **options)

    monkeypatch.setattr("builtins.open", full)
    refused(capsys, WRITERS[writer], ("out.", "No space left"))


def test_a_full_disk_under_a_study(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", failing(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(SystemExit) as caught:
        main(["study", "run", "llama2_7b", "--gpus", "h200_sxm", "--out", "page"])
    err = capsys.readouterr().err
    assert caught.value.code == 2
    assert err.startswith("gemmsim: page/picks.csv: cannot be written: No space")
    assert not list(Path("page").iterdir())


@pytest.mark.parametrize("writer", WRITERS)
def test_an_interrupt_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    before = sorted(Path().iterdir())
    monkeypatch.setattr(os, "replace", failing(KeyboardInterrupt()))
    with pytest.raises(SystemExit) as caught:
        main(list(WRITERS[writer]))
    assert caught.value.code == 130
    assert not capsys.readouterr().err.strip()
    assert sorted(Path().iterdir()) == before


def test_a_file_that_is_there_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.txt").write_text("before")
    monkeypatch.setattr(os, "replace", failing(OSError(errno.ENOSPC, "full")))
    with pytest.raises(SystemExit):
        main(list(WRITERS["predict"]))
    assert Path("out.txt").read_text() == "before"


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_stream_that_was_closed_from_the_start_stops_nothing(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, closed, None)
    with pytest.raises(SystemExit) as caught:
        main(["tune", "64", "64", "64", "--predicted", "--gpu", "h200_sxm", "--family", "naive", "--trials", "1"])
    getattr(sys, closed).close()
    assert caught.value.code == 0


@pytest.mark.parametrize(("error", "code"), [(BrokenPipeError(), 0), (OSError(errno.ENOSPC, "No space left"), 2)])
def test_a_reader_that_leaves_and_a_full_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: OSError, code: int
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(SystemExit) as caught:
        main(["specs", "list"])
    sys.stdout.close()
    assert caught.value.code == code
    assert capsys.readouterr().err == ("gemmsim: standard output: No space left\n" if code else "")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "found an empty file"),
        (b"no gzip", "expected gzip"),
        (gzip.compress(b"m,n\n1,2\n", mtime=0)[:-6], "complete gzip"),
    ],
)
def test_a_gzip_that_is_none(capsys: pytest.CaptureFixture[str], data: bytes, says: str) -> None:
    Path("in.csv.gz").write_bytes(data)
    refused(capsys, ("predict", "--batch", "in.csv.gz", *G), ("in.csv.gz", says))


# ------------------------------------------------------------------------------------------------ from Python


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"facts": {"regs_per_thread": -5}}, "fact regs_per_thread = -5: expected whole numbers from 1"),
        ({"facts": {"regs_per_thread": 0}}, "fact regs_per_thread = 0"),
        ({"facts": {"spill_bytes": [-1.0]}}, "fact spill_bytes = -1: expected whole numbers from 0"),
        ({"facts": {"smem_bytes": 1e300}}, r"fact smem_bytes = 1e\+300"),
        ({"facts": {"smem_bytes": float("inf")}}, "fact smem_bytes = inf"),
        ({"facts": {"smem_bytes": "much"}}, "fact smem_bytes = 'much'"),
        ({"facts": {"smem_bytes": [1, 2]}}, "fact smem_bytes has 2 values"),
        ({"facts": {"registers": 1}}, "unknown compiler fact 'registers'"),
        ({"m": []}, "M has the shape"),
        ({"m": [[64, 64]]}, "M has the shape"),
        ({"m": [64, 64], "n": [64, 64, 64]}, "M, N and K hold 2, 3, 1 values"),
        ({"config": {"bm": []}}, "bm has the shape"),
        ({"config": {"bm": "x"}}, "bm = 'x'"),
        ({"num_sms": 1.5}, "num_sms = 1.5"),
        ({"num_sms": "3"}, "num_sms = 3"),
        ({"family": None}, "unknown family None"),
        ({"l2": None}, "unknown L2 condition None"),
    ],
)  # fmt: skip
def test_a_wrong_call(given: dict[str, Any], says: str) -> None:
    with pytest.raises(GemmsimError, match=says):
        predict(**({"m": 64, "n": 64, "k": 64, "gpu": "h200_sxm"} | given))


def test_unknown_facts_are_nan_and_one_fact_stands_for_all_rows() -> None:
    p = predict([64, 128], 64, 64, gpu="h200_sxm", facts={"regs_per_thread": [float("nan"), 100], "spill_bytes": 8})
    assert p.launch.regs_per_thread[1] == 100
    assert p.launch.spill_bytes.tolist() == [8, 8]
