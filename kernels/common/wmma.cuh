// The PTX under nvcuda::wmma, for which NVRTC has no header: a warp multiplies 16 rows of A by 16 columns of B, 16 of K at a
// time (tf32: 8). How a fragment lies in the registers of a warp is not said; only these instructions fill, use and store it.
#pragma once

#include "types.cuh"

#if A_TRANSPOSED
#define WMMA_A "col"
#else
#define WMMA_A "row"
#endif
#if B_TRANSPOSED
#define WMMA_B "col"
#else
#define WMMA_B "row"
#endif

// Sum: of what the sums are. DEPTH: of K. WORDS: 32-bit registers of a fragment of A or of B.
template <typename E>
struct Wmma {
  using Sum = float;
  static constexpr int DEPTH = 16, WORDS = 4;
};
template <>
struct Wmma<half_t> {
  using Sum = float;
  static constexpr int DEPTH = 16, WORDS = 8;
};
template <>
struct Wmma<tf32_t> {
  using Sum = float;
  static constexpr int DEPTH = 8, WORDS = 4;
};
template <>
struct Wmma<signed char> {
  using Sum = int;
  static constexpr int DEPTH = 16, WORDS = 2;
};

// Loads: from an address in shared memory, rows (columns) `stride` elements apart.
#define WMMA_2(x) "=r"(x[0]), "=r"(x[1])
#define WMMA_4(x) WMMA_2(x), "=r"(x[2]), "=r"(x[3])
#define WMMA_8(x) WMMA_4(x), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
#define WMMA_LOAD(E, WORDS, LIST, SHAPE_AND_TYPE, FROM, STRIDE)                                                                  \
  __device__ __forceinline__ void wmma_load_a(E, unsigned (&to)[WORDS], unsigned from, int stride) {                           \
    asm volatile("wmma.load.a.sync.aligned." WMMA_A SHAPE_AND_TYPE " {" LIST "}, [" FROM "], " STRIDE ";"                      \
                 : WMMA_##WORDS(to) : "r"(from), "r"(stride));                                                                 \
  }                                                                                                                            \
  __device__ __forceinline__ void wmma_load_b(E, unsigned (&to)[WORDS], unsigned from, int stride) {                           \
    asm volatile("wmma.load.b.sync.aligned." WMMA_B SHAPE_AND_TYPE " {" LIST "}, [" FROM "], " STRIDE ";"                      \
                 : WMMA_##WORDS(to) : "r"(from), "r"(stride));                                                                 \
  }
WMMA_LOAD(bfloat_t, 4, "%0, %1, %2, %3", ".m16n16k16.shared.bf16", "%4", "%5")
WMMA_LOAD(half_t, 8, "%0, %1, %2, %3, %4, %5, %6, %7", ".m16n16k16.shared.f16", "%8", "%9")
WMMA_LOAD(tf32_t, 4, "%0, %1, %2, %3", ".m16n16k8.shared.tf32", "%4", "%5")
WMMA_LOAD(signed char, 2, "%0, %1", ".m16n16k16.shared.s8", "%2", "%3")

// d += a b.
#define WMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define WMMA_D(C) "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3]), "+" C(d[4]), "+" C(d[5]), "+" C(d[6]), "+" C(d[7])
#define WMMA_IN_2(x) "r"(x[0]), "r"(x[1])
#define WMMA_IN_4(x) WMMA_IN_2(x), "r"(x[2]), "r"(x[3])
#define WMMA_IN_8(x) WMMA_IN_4(x), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7])
#define WMMA_MULTIPLY(E, WORDS, SUM, C, OPERANDS, SHAPE_AND_TYPES)                                                              \
  __device__ __forceinline__ void wmma(E, SUM (&d)[8], const unsigned (&a)[WORDS], const unsigned (&b)[WORDS]) {               \
    asm("wmma.mma.sync.aligned." WMMA_A "." WMMA_B SHAPE_AND_TYPES " " WMMA_SUMS ", " OPERANDS ", " WMMA_SUMS ";"              \
        : WMMA_D(C) : WMMA_IN_##WORDS(a), WMMA_IN_##WORDS(b));                                                                 \
  }
WMMA_MULTIPLY(bfloat_t, 4, float, "f", "{%8, %9, %10, %11}, {%12, %13, %14, %15}", ".m16n16k16.f32.bf16.bf16.f32")
WMMA_MULTIPLY(half_t, 8, float, "f", "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}",
              ".m16n16k16.f32.f32")
WMMA_MULTIPLY(tf32_t, 4, float, "f", "{%8, %9, %10, %11}, {%12, %13, %14, %15}", ".m16n16k8.f32.tf32.tf32.f32")
WMMA_MULTIPLY(signed char, 2, int, "r", "{%8, %9}, {%10, %11}", ".m16n16k16.s32.s8.s8.s32")

// Stores 16 x 16 sums to shared memory, rows `stride` sums apart.
#define WMMA_STORE(E, SUM, C, SHAPE_AND_TYPE)                                                                                   \
  __device__ __forceinline__ void wmma_store(E, unsigned to, const SUM (&d)[8], int stride) {                                  \
    asm volatile("wmma.store.d.sync.aligned.row" SHAPE_AND_TYPE " [%8], " WMMA_SUMS ", %9;" ::C(d[0]), C(d[1]), C(d[2]),       \
                 C(d[3]), C(d[4]), C(d[5]), C(d[6]), C(d[7]), "r"(to), "r"(stride) : "memory");                                 \
  }
WMMA_STORE(bfloat_t, float, "f", ".m16n16k16.shared.f32")
WMMA_STORE(half_t, float, "f", ".m16n16k16.shared.f32")
WMMA_STORE(tf32_t, float, "f", ".m16n16k8.shared.f32")
WMMA_STORE(signed char, int, "r", ".m16n16k16.shared.s32")
