// register_tile: C = A B in fp32 on the CUDA cores. A block stages a BM x BK tile of A (transposed) and a BK x BN tile
// of B in shared memory; each thread keeps a TM x TN micro-tile of C in registers. Row-major A, B, C; any M, N, K.
//
// Parameters, set at compile time (-DBM=128 -DBN=128 -DBK=16 -DTM=8 -DTN=8):
//   BM, BN, BK  block tile: rows of C, columns of C, depth of a k-step
//   TM, TN      rows and columns of C that one thread computes
// Launch: (BM/TM)*(BN/TN) threads, grid.x = ceil(N/BN), grid.y = ceil(M/BM), no dynamic shared memory.
// Constraints: TM divides BM and TN divides BN; 1024 threads a block at most; static shared memory of
//   4*BK*(BM + 4 + BN) bytes, 48 KiB at most; ceil(M/BM) <= 65535.
// Figure: best at 4096^3 on an H200 SXM: 128x128x16, 8x8, 4.81 ms, 28.6 TFLOP/s. cuBLAS fp32 there: 51 TFLOP/s.
//   Rows: studies/h200/register_tile_fp32.csv.gz.
extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(int M, int N, int K, const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  constexpr int T = (BM / TM) * (BN / TN);
  __shared__ float sa[BK][BM + 4];
  __shared__ float sb[BK][BN];
  const int t = threadIdx.x, tr = t / (BN / TN), tc = t % (BN / TN);
  const int r0 = blockIdx.y * BM, c0 = blockIdx.x * BN;
  float acc[TM][TN] = {};
  float a[TM], b[TN];
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = t; i < BM * BK; i += T) {
      int r = i / BK, c = i % BK;
      sa[c][r] = (r0 + r < M && k0 + c < K) ? A[(size_t)(r0 + r) * K + k0 + c] : 0.f;
    }
    for (int i = t; i < BK * BN; i += T) {
      int r = i / BN, c = i % BN;
      sb[r][c] = (k0 + r < K && c0 + c < N) ? B[(size_t)(k0 + r) * N + c0 + c] : 0.f;
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
        for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      int r = r0 + tr * TM + i, c = c0 + tc * TN + j;
      if (r < M && c < N) C[(size_t)r * N + c] = acc[i][j];
    }
}
