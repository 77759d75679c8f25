// Where an element of A or B lies in memory: row-major, or transposed. Row r0 + r of A, column c0 + c of B, both at k0 + k.
#pragma once

#include "types.cuh"

// Summed in the order written, which is what decides how ptxas shares addresses between loads.
__device__ __forceinline__ size_t place(int line, int stride, int first, int along) {
  return (size_t)line * stride + first + along;
}
__device__ __forceinline__ size_t place_a(int r0, int r, int k0, int k, int M, int K) {
  return A_TRANSPOSED ? place(k0 + k, M, r0, r) : place(r0 + r, K, k0, k);
}
__device__ __forceinline__ size_t place_b(int k0, int k, int c0, int c, int N, int K) {
  return B_TRANSPOSED ? place(c0 + c, K, k0, k) : place(k0 + k, N, c0, c);
}
