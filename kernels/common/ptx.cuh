// The PTX that CUDA C++ has no builtin for without further headers: narrow floats, cp.async, flags between blocks.
#pragma once

struct half_t {
  unsigned short bits;
};
struct bfloat_t {
  unsigned short bits;
};
// fp32 in memory, of which tensor cores read the upper 19 bits.
struct tf32_t {
  float value;
};
// 8 bits: sign, 4 of exponent (bias 7), 3 of mantissa; 448 at most, no infinity.
struct e4m3_t {
  unsigned char bits;
};

__device__ __forceinline__ float to_float(half_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ float to_float(bfloat_t x) { return __uint_as_float(unsigned(x.bits) << 16); }
__device__ __forceinline__ half_t to_half(float x) {
  half_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
__device__ __forceinline__ bfloat_t to_bfloat(float x) {
  bfloat_t y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
// The 7 bits as the exponent's last four and the mantissa's first three, and the difference of the biases made good.
__device__ __forceinline__ float to_float(e4m3_t x) {
  const unsigned size = x.bits & 127u, sign = unsigned(x.bits & 128u) << 24;
  return __uint_as_float(sign | (size == 127u ? 0x7fffffffu : __float_as_uint(__uint_as_float(size << 20) * 0x1p120f)));
}
// To nearest even; what is beyond 448, infinity too, becomes 448.
__device__ __forceinline__ e4m3_t to_e4m3(float x) {
#if __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
  return {static_cast<unsigned char>(pair)};
#else
  const float size = fminf(fabsf(x), 448.f);  // below 2^-6 in steps of 2^-9; above, the exponent's bias goes from 127 to 7
  const unsigned bits = __float_as_uint(size), whole = ((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - (120u << 3);
  const unsigned code = x != x ? 127u : size < 0x1p-6f ? unsigned(rintf(size * 0x1p9f)) : whole;
  return {static_cast<unsigned char>(code | __float_as_uint(x) >> 31 << 7)};
#endif
}

// Errs by 2^-11 at most.
__device__ __forceinline__ float tanh_approximate(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two neighbours in one register, the first in its lower half.
__device__ __forceinline__ unsigned pack(half_t, float first, float second) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
__device__ __forceinline__ unsigned pack(bfloat_t, float first, float second) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}

// One of two 16-bit neighbours in a register.
template <typename E>
__device__ __forceinline__ E unpack(unsigned both, int i) {
  return {static_cast<unsigned short>(both >> 16 * i)};
}

// Copies V elements, 4 to 16 bytes, from global to shared memory in the background; 16 bytes pass L1 by.
template <int V, typename E>
__device__ __forceinline__ void copy_async(E* to, const E* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (V * sizeof(E) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(int(V * sizeof(E))));
}

// The same; zeros, and nothing read, if not `valid`.
template <int V, typename E>
__device__ __forceinline__ void copy_async(E* to, const E* from, bool valid) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? int(V * sizeof(E)) : 0;
  if constexpr (V * sizeof(E) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(int(V * sizeof(E))), "r"(bytes));
}

__device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;"); }
// Waits until all groups but the last PENDING have arrived.
template <int PENDING>
__device__ __forceinline__ void wait_async() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING));
}

// A flag that one block raises and another waits for. What the first wrote before `raise` can be read after `await`; both
// hold for a whole block if a barrier stands before `raise` and after `await`.
__device__ __forceinline__ void raise(int* flag) { asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory"); }
__device__ __forceinline__ void await(const int* flag) {
  int up;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(up) : "l"(flag) : "memory");
  while (!up);
}
