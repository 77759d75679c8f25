// The PTX that CUDA C++ has no builtin for without further headers: 16-bit floats, cp.async, flags between blocks.
#pragma once

struct half_t {
  unsigned short bits;
};
struct bfloat_t {
  unsigned short bits;
};
struct tf32_t {
  float value;
};
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
