// mma.sync: a warp multiplies 16 rows of A by 8 columns of B, 32 bytes of K at a time: m16n8k16 of 16-bit elements, m16n8k8 of
// tf32, m16n8k32 of int8. Their fragments lie alike in 32-bit registers, so one way to read them from shared memory does for all.
#pragma once

#include "swizzle.cuh"

template <typename E>
struct Mma {
  using Sum = float;
};
template <>
struct Mma<signed char> {
  using Sum = int;
};

#define MMA_SYNC(SHAPE, C)                                                                                            \
  asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
      : "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3])                                                            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
__device__ __forceinline__ void mma_sync(bfloat_t, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  MMA_SYNC("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
}
__device__ __forceinline__ void mma_sync(half_t, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  MMA_SYNC("m16n8k16.row.col.f32.f16.f16.f32", "f");
}
__device__ __forceinline__ void mma_sync(tf32_t, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  MMA_SYNC("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
}
__device__ __forceinline__ void mma_sync(signed char, int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  MMA_SYNC("m16n8k32.row.col.s32.s8.s8.s32", "r");
}
#undef MMA_SYNC

// Four matrices of 8 x 16 bytes, a lane giving the address of a row; TURNED: transposed on the way, in 16-bit elements.
template <bool TURNED>
__device__ __forceinline__ void ldmatrix(unsigned (&to)[4], unsigned from) {
  if constexpr (TURNED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}
__device__ __forceinline__ unsigned load_shared(unsigned from) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from));
  return word;
}

// Reads a warp's fragments, COUNT blocks of 16 rows of A (IS_A) or 16 columns of B, for step s of K (32 bytes), in one ldmatrix
// a block: of A the registers a0 to a3; of B b0 and b1 of the first 8 columns, then of the others. Addresses of blocks or steps
// differ by what is added, and by what is XORed into bits that the turn has: one register for each of the latter.
template <typename TILE, int COUNT, bool IS_A>
struct Fragments {
  using Order = typename TILE::Order;
  static constexpr bool K_RUNS = TILE::K_RUNS, WORDS = !K_RUNS && sizeof(typename TILE::Element) == 4;
  static_assert(K_RUNS || sizeof(typename TILE::Element) > 1, "8-bit operands run along K in memory: A row-major, B transposed");
  // How many 32-byte pairs of pieces fragments pass over, and those of them that the turn reaches.
  static constexpr int PAIRS = K_RUNS ? TILE::ROW_BYTES / 32 : WORDS ? 2 * COUNT : COUNT;
  static constexpr int XORED = PAIRS < Order::TURNS / 2 ? PAIRS : Order::TURNS / 2;
  unsigned at[XORED];

  // first: of the warp's rows or columns in the tile.
  __device__ __forceinline__ Fragments(int first) {
    const int lane = threadIdx.x % 32, low = lane / 8 % 2, high = lane / 16;
    const bool straight = IS_A == K_RUNS;
    const int line = WORDS ? lane % 4 : lane % 8 + (straight ? low : high) * 8, half = WORDS || straight ? high : low;
    const int row = K_RUNS ? first + line : line, piece = K_RUNS ? half : first * int(sizeof(typename TILE::Element)) / 16 + half;
    const int word = WORDS ? lane / 4 % 4 * 4 : 0;
#pragma unroll
    for (int x = 0; x < XORED; ++x) at[x] = row * TILE::ROW_BYTES + (((piece ^ Order::turn(row)) * 16) ^ (x * 32)) + word;
  }
  __device__ __forceinline__ unsigned pair(unsigned tile, int p) const { return tile + at[p % XORED] + p / XORED * (XORED * 32); }

  __device__ __forceinline__ void load(unsigned (&to)[COUNT][4], unsigned tile, int s) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if constexpr (WORDS) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {  // halves of the block along M or N, of the step along K
          const int side = IS_A ? r % 2 : r / 2, deep = IS_A ? r / 2 : r % 2;
          to[i][r] = load_shared(pair(tile, 2 * i + side) + (s * 8 + deep * 4) * TILE::ROW_BYTES);
        }
      } else if constexpr (K_RUNS) {
        ldmatrix<false>(to[i], pair(tile, s) + i * (16 * TILE::ROW_BYTES));
      } else {
        ldmatrix<true>(to[i], pair(tile, i) + s * (16 * TILE::ROW_BYTES));
      }
    }
  }
};
