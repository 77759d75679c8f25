// What a kernel computes in and stores: the macros' defaults (plain fp32, row-major, nothing after the product), the narrow
// types of memory, and vectors of elements. Everything that needs inline PTX is in ptx.cuh.
#pragma once

#ifndef TYPE  // of the accumulators and what follows, float or double; on CUDA cores of A and B, too
#define TYPE float
#endif
#ifndef IN  // of A and B on tensor cores: half_t, bfloat_t, tf32_t, e4m3_t or signed char
#define IN TYPE
#endif
#ifndef OUT  // of C, bias and residual: float, double, half_t, bfloat_t or e4m3_t
#define OUT TYPE
#endif
#ifndef A_TRANSPOSED  // 1: A is stored K x M
#define A_TRANSPOSED 0
#endif
#ifndef B_TRANSPOSED  // 1: B is stored N x K
#define B_TRANSPOSED 0
#endif
#ifndef BETA  // 1: C is read, and beta C added
#define BETA 0
#endif
#ifndef STEPS  // what follows, in this order: a list of Bias, Relu, Gelu, Silu, Residual, Scale (epilogue.cuh)
#define STEPS
#endif

#include "ptx.cuh"

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// From the type of C to that of the math, and back, to nearest even. A double reaches a narrow type by way of float.
template <typename E>
__device__ __forceinline__ TYPE widen(E x) {
  return TYPE(x);
}
__device__ __forceinline__ TYPE widen(half_t x) { return TYPE(to_float(x)); }
__device__ __forceinline__ TYPE widen(bfloat_t x) { return TYPE(to_float(x)); }
__device__ __forceinline__ TYPE widen(e4m3_t x) { return TYPE(to_float(x)); }

template <typename E>
struct Narrow {
  static __device__ __forceinline__ E of(TYPE x) { return E(x); }
};
template <>
struct Narrow<half_t> {
  static __device__ __forceinline__ half_t of(TYPE x) { return to_half(float(x)); }
};
template <>
struct Narrow<bfloat_t> {
  static __device__ __forceinline__ bfloat_t of(TYPE x) { return to_bfloat(float(x)); }
};
template <>
struct Narrow<e4m3_t> {
  static __device__ __forceinline__ e4m3_t of(TYPE x) { return to_e4m3(float(x)); }
};

// The most elements of a 16-byte access.
template <typename E>
constexpr int WIDEST = 16 / int(sizeof(E));

template <typename E, int V>
struct alignas(sizeof(E) * V) Vector {
  E at[V];
};

// Reads or writes V neighbours, whose address is a multiple of their size (16 bytes at most), in as few accesses as it takes.
template <int V, typename E>
__device__ __forceinline__ void read(E* to, const E* from) {
  constexpr int W = V < WIDEST<E> ? V : WIDEST<E>;
#pragma unroll
  for (int i = 0; i < V; i += W) {
    const Vector<E, W> w = *reinterpret_cast<const Vector<E, W>*>(from + i);
#pragma unroll
    for (int v = 0; v < W; ++v) to[i + v] = w.at[v];
  }
}

template <int V, typename E>
__device__ __forceinline__ void write(E* to, const E* from) {
  constexpr int W = V < WIDEST<E> ? V : WIDEST<E>;
#pragma unroll
  for (int i = 0; i < V; i += W) {
    Vector<E, W> w;
#pragma unroll
    for (int v = 0; v < W; ++v) w.at[v] = from[i + v];
    *reinterpret_cast<Vector<E, W>*>(to + i) = w;
  }
}

// Whether `elements` neighbours from p on, and from multiples of them on, can be read at once.
template <typename E>
__device__ __forceinline__ bool aligned(const E* p, int elements) {
  const size_t bytes = sizeof(E) * elements;
  return reinterpret_cast<size_t>(p) % (bytes < 16 ? bytes : 16) == 0;
}
