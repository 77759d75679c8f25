// Which elements of a tile of A or B a thread of a block copies to shared memory, and from where. In shared memory a row of
// the tile is one k: `SIDE` neighbours along M or N. In global memory either K runs on, and the tile is scattered, or M or N
// does, and it is copied row by row.
#pragma once

#include "types.cuh"

// SCATTERED: whether K runs on in memory. V: elements a copy moves at once. SIDE, DEPTH: of the tile. THREADS: of the block.
// COPIES: of a thread. row(i) and so on are counted from the first element of the tile. Copies past the last element of the
// matrix along M or N read the last again: what they bring only reaches results that are not stored.
//   each(tile, from, f)  calls f(index, target, source, k) for each copy, k its first column of A or row of B in the tile
//   put(target, values)  stores what a copy brought by way of registers
template <bool SCATTERED, int V, int SIDE, int DEPTH, int THREADS>
struct Copy;

// Scattered. Lanes take up to 16 V elements along K, then the next row of A or column of B. A pitch of 16 bytes more than the
// tile's side keeps what a warp stores at once in different banks (for 32 | SIDE and 8 elements along K).
template <int V, int SIDE, int DEPTH, int THREADS>
struct Copy<true, V, SIDE, DEPTH, THREADS> {
  static constexpr int WIDTH = V, PITCH = SIDE + WIDEST<TYPE>;
  static constexpr int ACROSS = V == 1 && DEPTH % 16 == 0 ? 16 : DEPTH / V, DOWN = THREADS / ACROSS;
  static constexpr int COUNT = (SIDE + DOWN - 1) / DOWN, REPEATS = DEPTH / (ACROSS * V), COPIES = COUNT * REPEATS;
  static_assert(THREADS % ACROSS == 0, "bk is too deep for so few threads");
  int line, k;
  unsigned offset[COUNT];

  __device__ __forceinline__ Copy(int lines, int stride) : line(threadIdx.x / ACROSS), k(threadIdx.x % ACROSS * V) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) offset[i] = unsigned(min(line + i * DOWN, lines - 1)) * unsigned(stride) + k;
  }
  template <typename F>
  __device__ __forceinline__ void each(TYPE* tile, const TYPE* from, F f) const {
    TYPE* const target = tile + k * PITCH + line;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
      for (int r = 0; r < REPEATS; ++r) {
        const int ahead = r * ACROSS * V;
        if (SIDE % DOWN == 0 || line + i * DOWN < SIDE)
          f(i * REPEATS + r, target + ahead * PITCH + i * DOWN, from + offset[i] + ahead, k + ahead);
      }
  }
  static __device__ __forceinline__ void put(TYPE* to, const TYPE* values) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[v * PITCH] = values[v];
  }
};

// Row by row, each k a row.
template <int V, int SIDE, int DEPTH, int THREADS>
struct Copy<false, V, SIDE, DEPTH, THREADS> {
  static constexpr int WIDTH = V, PITCH = SIDE;
  static constexpr int ACROSS = SIDE / V, TOTAL = DEPTH * ACROSS, COPIES = (TOTAL + THREADS - 1) / THREADS;
  static constexpr bool EVEN = THREADS % ACROSS == 0;  // a thread's copies lie in one column
  int row0, column0;
  unsigned offset[COPIES];

  __device__ __forceinline__ int row(int i) const {
    return EVEN ? row0 + i * (THREADS / ACROSS) : (int(threadIdx.x) + i * THREADS) / ACROSS;
  }
  __device__ __forceinline__ int column(int i) const {
    return EVEN ? column0 : (int(threadIdx.x) + i * THREADS) % ACROSS * V;
  }
  __device__ __forceinline__ Copy(int lines, int stride) : row0(threadIdx.x / ACROSS), column0(threadIdx.x % ACROSS * V) {
#pragma unroll
    for (int i = 0; i < COPIES; ++i) offset[i] = unsigned(row(i)) * unsigned(stride) + min(column(i), lines - V);
  }
  template <typename F>
  __device__ __forceinline__ void each(TYPE* tile, const TYPE* from, F f) const {
    TYPE* const target = tile + row0 * PITCH + column0;
#pragma unroll
    for (int i = 0; i < COPIES; ++i)
      if (TOTAL % THREADS == 0 || int(threadIdx.x) + i * THREADS < TOTAL)
        f(i, EVEN ? target + i * (THREADS / ACROSS * PITCH) : tile + row(i) * PITCH + column(i), from + offset[i], row(i));
  }
  static __device__ __forceinline__ void put(TYPE* to, const TYPE* values) { write<V>(to, values); }
};
