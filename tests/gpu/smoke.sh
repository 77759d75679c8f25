#!/usr/bin/env bash
# One minute on a GPU before anything longer: every part of the measure room once, each step's output and time printed.
# Usage: tests/gpu/smoke.sh [FOLDER]; goes on after a step that fails, and ends with the number of those.
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
mkdir -p "$work"
export GEMMSIM_STORE=$work/rows.sqlite
python=${PYTHON:-python3}
failed=0
step() {
  local began=$SECONDS status=0
  echo "== $1"
  shift
  timeout 120 "$@" || status=$?
  [ $status = 0 ] || { failed=$((failed + 1)); echo "!! exit $status"; }
  echo "-- $((SECONDS - began)) s"
}

step doctor "$python" -m gemmsim doctor
step "cuBLAS alone" "$python" -m gemmsim measure 4096 4096 4096 --family cublas --dtype fp32
step "register_tile against cuBLAS" "$python" -m gemmsim measure 4096 4096 4096 --family register_tile --tile 128x128x16 -p tm=8 -p tn=8 --against cublas
step "simt, defaults, against cuBLAS" "$python" -m gemmsim measure 4096 4096 4096 --family simt --dtype fp32 --against cublas
step "simt, fused" "$python" -m gemmsim measure 4096 4096 4096 --family simt --dtype fp32 --epilogue bias,gelu --against cublas
step "simt, graph" "$python" -m gemmsim measure 128 128 128 --family simt --dtype fp32 --tile 64x64x16 -p wm=32 -p wn=32 -p tm=4 -p tn=8 -p regs=0 --graph
{
  echo family,m,n,k,bm,bn,bk,wm,wn,tm,tn,stages,async_copy,regs,split_k,stream_k,group_m
  for shape in 512,512,512 1024,1024,1024 129,1000,77 64,11008,4096; do
    for bk in 8 16; do for stages in 2 3 4; do for split in 1 4; do
      echo simt,$shape,64,64,$bk,32,32,4,8,$stages,1,0,$split,0,8
      echo simt,$shape,128,64,$bk,32,64,8,8,$stages,1,0,$split,0,8
    done; done; done
    echo simt,$shape,64,64,16,32,32,4,8,2,0,0,1,0,8
    echo simt,$shape,64,64,16,32,32,4,8,3,1,0,1,1,8
  done
} >"$work/simt.csv"
step "a batch of simt" "$python" -m gemmsim measure --batch "$work/simt.csv" --out "$work/simt_rows.csv" --dtype fp32
step "the same batch again: nothing to do" "$python" -m gemmsim measure --batch "$work/simt.csv" --out "$work/simt_rows.csv" --dtype fp32
step "statuses" "$python" -c "
import csv, collections
rows = list(csv.DictReader(open('$work/simt_rows.csv')))
print(collections.Counter((r['status'], r['unstable']) for r in rows))
walls = sorted(float(r['wall_s']) for r in rows if r['wall_s'])
print('wall_s of a row: mean', sum(walls) / len(walls), 'median', walls[len(walls) // 2], 'most', walls[-3:])
for r in rows:
    if r['status'] != 'ok': print(r['m'], r['n'], r['k'], r['bm'], r['bn'], r['bk'], r['stages'], r['split_k'], r['stream_k'], r['status'], r['reason'])
best = max((r for r in rows if r['status'] == 'ok'), key=lambda r: float(r['tflops']))
print({k: v for k, v in best.items() if v})
"
step "tests on the GPU, some" "$python" -m pytest -q -m gpu --require-gpu tests/gpu/test_measure.py -k "faults or whole or cublas"
step "sanitizer" compute-sanitizer --version
echo "$failed steps failed; files in $work"
exit $failed
