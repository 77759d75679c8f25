// Split-K's second half: sums the slices of tiles of BM x BN, which hold alpha times their part, in their order.
#pragma once

#include "epilogue.cuh"
#include "raster.cuh"

// What one block of 256 threads does, four results each: tile blockIdx.x / ceil(BM*BN/1024) of those from `whole` on.
template <int BM_, int BN_>
__device__ __forceinline__ void sum_slices(const Epilogue& epilogue, int M, int N, int group_m, int whole, int slices,
                                           const TYPE* __restrict__ W) {
  constexpr int RESULTS = BM_ * BN_, PIECES = (RESULTS + 1023) / 1024;
  const int tile = blockIdx.x / PIECES, at = (blockIdx.x % PIECES * 256 + threadIdx.x) * 4;
  if (at >= RESULTS) return;
  int row, column;
  raster(whole + tile, (M + BM_ - 1) / BM_, (N + BN_ - 1) / BN_, group_m, row, column);
  const int r = row * BM_ + at / BN_, c = column * BN_ + at % BN_;
  if (r >= M || c >= N) return;
  const size_t place = (size_t)r * N + c;
  W += (size_t)tile * slices * RESULTS + at;
  TYPE sum[4] = {};
#pragma unroll 8
  for (int s = 0; s < slices; ++s) {
    TYPE part[4];
    read<4>(part, W + (size_t)s * RESULTS);
#pragma unroll
    for (int v = 0; v < 4; ++v) sum[v] += part[v];
  }
  if (epilogue.aligned_to(4, N)) {
    Operands<4> operands;
    epilogue.fetch(operands, place, c);
    epilogue.store(sum, operands, epilogue.C + place);
    return;
  }
#pragma unroll
  for (int v = 0; v < 4; ++v)
    if (c + v < N) epilogue.finish(sum[v], place + v, c + v);
}
