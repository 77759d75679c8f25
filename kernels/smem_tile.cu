// smem_tile: C = steps(alpha A B + beta C) on the CUDA cores. A block of TILE x TILE threads stages a TILE x TILE tile of A
// and one of B in shared memory; each thread computes one element of C. A and B row-major or transposed; any M, N, K >= 1.
//
// Parameters, set at compile time (-DTILE=32 -DPAD=1):
//   TILE  rows and columns of C that a block computes, and depth of a k-step
//   PAD   columns of padding of both shared tiles
//   TYPE, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh
// The tile of A is stored transposed, sa[k][row], as in the kernels that read it along rows (register_tile). Lanes that
//   lie along K in global memory then store TILE + PAD words apart: with TILE 32, 32 lanes in one bank (PAD 0), 4 in
//   each of 8 banks (PAD 4), or each in its own (PAD 1). Reads of both tiles (A: one or a few words a warp, broadcast;
//   B: a row) and stores of B are free of conflicts, but for stores of B with TILE < 32, whose rows PAD moves apart. A
//   transposed matrix changes the two: rows of A's tile are then stored, and B's tile is stored as A's was.
// Launch: TILE*TILE threads, grid.x = ceil(N/TILE), grid.y = ceil(M/TILE), no dynamic shared memory.
// Constraints: TILE is a multiple of 8, 32 at most; static shared memory of two times TILE*(TILE + PAD) elements, 48 KiB at most;
//   ceil(M/TILE) <= 65535.
// Figure: best at 4096^3 on an H200 SXM: TILE 32, PAD 1, 19.7 ms, 7.0 TFLOP/s, 14 % of cuBLAS fp32 (51 TFLOP/s); 26.8 ms
//   with PAD 0, 20.3 ms with PAD 4. Rows: studies/h200/smem_tile_fp32.csv.gz.
#include "common/epilogue.cuh"
#include "common/layout.cuh"

extern "C" __global__ void __launch_bounds__(TILE * TILE)
gemm(int M, int N, int K, const TYPE* __restrict__ A, const TYPE* __restrict__ B, OUT* __restrict__ C, TYPE alpha, TYPE beta,
     TYPE scale, const OUT* __restrict__ bias, const OUT* __restrict__ residual) {
  __shared__ TYPE sa[TILE][TILE + PAD];
  __shared__ TYPE sb[TILE][TILE + PAD];
  const int tr = threadIdx.x / TILE, tc = threadIdx.x % TILE;
  const int r = blockIdx.y * TILE + tr, c = blockIdx.x * TILE + tc;
  // What this thread copies: the lanes of a warp (tc) lie along what runs on in memory.
  const int ak = A_TRANSPOSED ? tr : tc, ar = A_TRANSPOSED ? tc : tr, row = blockIdx.y * TILE + ar;
  const int bk = B_TRANSPOSED ? tc : tr, bc = B_TRANSPOSED ? tr : tc, column = blockIdx.x * TILE + bc;
  TYPE sum = 0;
#pragma unroll 1
  for (int k0 = 0; k0 < K; k0 += TILE) {
    sa[ak][ar] = (row < M && k0 + ak < K) ? A[place_a(row, 0, k0, ak, M, K)] : 0;
    sb[bk][bc] = (k0 + bk < K && column < N) ? B[place_b(k0, bk, column, 0, N, K)] : 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) sum = multiply_add(sa[k][tr], sb[k][tc], sum);
    __syncthreads();
  }
  if (r < M && c < N) Epilogue{C, beta, scale, bias, residual}.finish(alpha * sum, (size_t)r * N + c, c);
}
