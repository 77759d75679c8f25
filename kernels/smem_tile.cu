// smem_tile: C = A B in fp32 on the CUDA cores. A block of TILE x TILE threads stages a TILE x TILE tile of A and one of
// B in shared memory; each thread computes one element of C. Row-major A, B, C; any M, N, K >= 1.
//
// Parameters, set at compile time (-DTILE=32 -DPAD=1):
//   TILE  rows and columns of C that a block computes, and depth of a k-step
//   PAD   columns of padding of both shared tiles
// The tile of A is stored transposed, sa[k][row], as in the kernels that read it along rows (register_tile). Lanes that
//   lie along K in global memory then store TILE + PAD words apart: with TILE 32, 32 lanes in one bank (PAD 0), 4 in
//   each of 8 banks (PAD 4), or each in its own (PAD 1). Reads of both tiles (A: one or a few words a warp, broadcast;
//   B: a row) and stores of B are free of conflicts, but for stores of B with TILE < 32, whose rows PAD moves apart.
// Launch: TILE*TILE threads, grid.x = ceil(N/TILE), grid.y = ceil(M/TILE), no dynamic shared memory.
// Constraints: TILE is a multiple of 8, 32 at most; static shared memory of 8*TILE*(TILE + PAD) bytes, 48 KiB at most;
//   ceil(M/TILE) <= 65535.
// Figure: best at 4096^3 on an H200 SXM: TILE 32, PAD 1, 19.7 ms, 7.0 TFLOP/s, 14 % of cuBLAS fp32 (51 TFLOP/s); 26.8 ms
//   with PAD 0, 20.3 ms with PAD 4. Rows: studies/h200/smem_tile_fp32.csv.gz.
extern "C" __global__ void __launch_bounds__(TILE * TILE)
gemm(int M, int N, int K, const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  __shared__ float sa[TILE][TILE + PAD];
  __shared__ float sb[TILE][TILE + PAD];
  const int tr = threadIdx.x / TILE, tc = threadIdx.x % TILE;
  const int r = blockIdx.y * TILE + tr, c = blockIdx.x * TILE + tc;
  float sum = 0.f;
#pragma unroll 1
  for (int k0 = 0; k0 < K; k0 += TILE) {
    sa[tc][tr] = (r < M && k0 + tc < K) ? A[(size_t)r * K + k0 + tc] : 0.f;
    sb[tr][tc] = (k0 + tr < K && c < N) ? B[(size_t)(k0 + tr) * N + c] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) sum = fmaf(sa[k][tr], sb[k][tc], sum);
    __syncthreads();
  }
  if (r < M && c < N) C[(size_t)r * N + c] = sum;
}
