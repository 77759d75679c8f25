// register_tile: C = steps(alpha A B + beta C) on the CUDA cores. A block stages a BM x BK tile of A (transposed) and a
// BK x BN tile of B in shared memory; each thread keeps a TM x TN micro-tile of C in registers. A and B row-major or
// transposed; any M, N, K >= 1.
//
// Parameters, set at compile time (-DBM=128 -DBN=128 -DBK=16 -DTM=8 -DTN=8):
//   BM, BN, BK  block tile: rows of C, columns of C, depth of a k-step
//   TM, TN      rows and columns of C that one thread computes
//   TYPE, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh
//   DROP_BARRIER  a hook for tests, 0 by default: 1 leaves out the barrier behind the products, so that fast warps overwrite
//               the tiles that slow ones still read: a race that a checker must find
// Launch: (BM/TM)*(BN/TN) threads, grid.x = ceil(N/BN), grid.y = ceil(M/BM), no dynamic shared memory.
// Constraints: TM divides BM and TN divides BN; 1024 threads a block at most; static shared memory of
//   BK*(BM + 4 + BN) elements, BK*4 more if B is transposed, 48 KiB at most; ceil(M/BM) <= 65535.
// Figure: best at 4096^3 on an H200 SXM: 128x128x16, 8x8, 4.81 ms, 28.6 TFLOP/s. cuBLAS fp32 there: 51 TFLOP/s.
//   Rows: studies/h200/register_tile_fp32.csv.gz.
#include "common/epilogue.cuh"
#include "common/layout.cuh"

#ifndef DROP_BARRIER
#define DROP_BARRIER 0
#endif

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(int M, int N, int K, const TYPE* __restrict__ A, const TYPE* __restrict__ B, OUT* __restrict__ C, TYPE alpha, TYPE beta,
     TYPE scale, const OUT* __restrict__ bias, const OUT* __restrict__ residual) {
  constexpr int T = (BM / TM) * (BN / TN);
  __shared__ TYPE sa[BK][BM + 4];
  __shared__ TYPE sb[BK][BN + 4 * B_TRANSPOSED];
  const int t = threadIdx.x, tr = t / (BN / TN), tc = t % (BN / TN);
  const int r0 = blockIdx.y * BM, c0 = blockIdx.x * BN;
  TYPE acc[TM][TN] = {};
  TYPE a[TM], b[TN];
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = t; i < BM * BK; i += T) {
      int r = A_TRANSPOSED ? i % BM : i / BK, c = A_TRANSPOSED ? i / BM : i % BK;
      sa[c][r] = (r0 + r < M && k0 + c < K) ? A[place_a(r0, r, k0, c, M, K)] : 0;
    }
    for (int i = t; i < BK * BN; i += T) {
      int r = B_TRANSPOSED ? i % BK : i / BN, c = B_TRANSPOSED ? i / BK : i % BN;
      sb[r][c] = (k0 + r < K && c0 + c < N) ? B[place_b(k0, r, c0, c, N, K)] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) {
#pragma unroll
      for (int i = 0; i < TM; ++i) a[i] = sa[k][tr * TM + i];
#pragma unroll
      for (int j = 0; j < TN; ++j) b[j] = sb[k][tc * TN + j];
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = multiply_add(a[i], b[j], acc[i][j]);
    }
    if (!DROP_BARRIER) __syncthreads();
  }
  const Epilogue epilogue{C, beta, scale, bias, residual};
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      int r = r0 + tr * TM + i, c = c0 + tc * TN + j;
      if (r < M && c < N) epilogue.finish(alpha * acc[i][j], (size_t)r * N + c, c);
    }
}
