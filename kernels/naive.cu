// naive: C = steps(alpha A B + beta C) on the CUDA cores, one thread an element of C, straight from global memory: what the
// caches alone give. A and B row-major or transposed; any M, N, K >= 1.
//
// Parameters, set at compile time (-DBM=8 -DBN=32 -DBK=4 -DCOALESCED=1):
//   BM, BN     rows and columns of C that a block computes, one a thread
//   BK         columns of K whose loads are unrolled together, in flight at once
//   COALESCED  1: the lanes of a warp lie along N: a load of B is one run of BN elements, a load of A a broadcast.
//              0: they lie along M: a load of A touches a line for each of the BM rows, a load of B is a broadcast, and
//              so is a store of C scattered: what uncoalesced access costs
//   TYPE, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh
// Launch: BM*BN threads, grid.x = ceil(N/BN), grid.y = ceil(M/BM), no shared memory.
// Constraints: 1024 threads a block at most; ceil(M/BM) <= 65535.
// Figure: best at 4096^3 on an H200 SXM: 32x32, BK 8, 22.1 ms, 6.2 TFLOP/s, 12 % of cuBLAS fp32 (51 TFLOP/s); with BK 4
//   29.4 ms, and uncoalesced 275 ms. Rows: studies/h200/naive_fp32.csv.gz.
#include "common/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
gemm(int M, int N, int K, const TYPE* __restrict__ A, const TYPE* __restrict__ B, OUT* __restrict__ C, TYPE alpha, TYPE beta,
     TYPE scale, const OUT* __restrict__ bias, const OUT* __restrict__ residual) {
  const int t = threadIdx.x;
  const int r = blockIdx.y * BM + (COALESCED ? t / BN : t % BM);
  const int c = blockIdx.x * BN + (COALESCED ? t % BN : t / BM);
  if (r >= M || c >= N) return;
  const TYPE* a = A + (A_TRANSPOSED ? r : (size_t)r * K);
  const TYPE* b = B + (B_TRANSPOSED ? (size_t)c * K : c);
  constexpr int unrolled = BK;
  TYPE sum = 0;
#pragma unroll unrolled
  for (int k = 0; k < K; ++k)
    sum = multiply_add(a[A_TRANSPOSED ? (size_t)k * M : k], b[B_TRANSPOSED ? k : (size_t)k * N], sum);
  Epilogue{C, beta, scale, bias, residual}.finish(alpha * sum, (size_t)r * N + c, c);
}
