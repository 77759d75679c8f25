// Tiles of A and B in shared memory as they lie in global memory, row by row, but for the order of the 16-byte pieces of a row:
// turned by the row, so that ldmatrix, which reads eight rows at the same piece, meets no bank conflict, nor do the copies.
#pragma once

#include "types.cuh"

// The TURNS first pieces of a row, and each TURNS behind them, change places; ROWS neighbours of 128 bytes together alike.
// WORDS: lanes read words of two pieces and four rows at once, instead of a piece of eight rows.
template <int ROW_BYTES, bool WORDS>
struct Swizzle {
  static constexpr int PIECES = ROW_BYTES / 16, TURNS = PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : 2, ROWS = 8 / TURNS;
  static_assert(ROW_BYTES % 32 == 0, "a row of a tile is a multiple of 32 bytes");
  static __device__ __forceinline__ int turn(int row) { return (WORDS ? row / ROWS * 2 : row / ROWS) % TURNS; }
};

template <bool FIRST, typename A, typename B>
struct Choose {
  using Type = A;
};
template <typename A, typename B>
struct Choose<false, A, B> {
  using Type = B;
};

// Pieces in their places.
struct Straight {
  static __device__ __forceinline__ int turn(int) { return 0; }
};

// A tile of SIDE rows of A or columns of B, and DEPTH of K. ALONG_K: K runs on in memory, and a row of the tile is one row of A
// or column of B; else it is one k. PADDING: bytes behind each row, 0 for pieces that are turned.
template <typename E, bool ALONG_K, int SIDE, int DEPTH, int PADDING = 0>
struct Tile {
  static constexpr bool K_RUNS = ALONG_K;
  using Element = E;
  static constexpr int ROW = ALONG_K ? DEPTH : SIDE, ROWS = ALONG_K ? SIDE : DEPTH;
  static constexpr int ROW_BYTES = ROW * int(sizeof(E)) + PADDING, BYTES = ROWS * ROW_BYTES;
  using Order = typename Choose<PADDING == 0, Swizzle<ROW_BYTES, !ALONG_K && sizeof(E) == 4>, Straight>::Type;
};

// Bytes of a copy of which so many are allowed: what cp.async does, or one element.
template <typename E>
constexpr int copied(int allowed) {
  return allowed >= 4 ? allowed : int(sizeof(E));
}

// Which parts of a tile a thread copies, BYTES at a time, by cp.async where it can. Copies past the last row of A or column of B
// read the last again: what they bring only reaches results that are not stored.
template <typename TILE, int BYTES, int THREADS>
struct TileCopy {
  using E = typename TILE::Element;
  using Order = typename TILE::Order;
  static constexpr int V = BYTES / int(sizeof(E)), ACROSS = TILE::ROW / V, TOTAL = TILE::ROWS * ACROSS;
  static constexpr int COPIES = (TOTAL + THREADS - 1) / THREADS, DOWN = THREADS / ACROSS, BATCH = 8;
  static constexpr bool EVEN = THREADS % ACROSS == 0;           // a thread's copies lie in one column
  static constexpr bool REGULAR = EVEN && (DOWN & (DOWN - 1)) == 0;  // and their turns differ by constants
  static constexpr bool KEPT = COPIES <= 12;                    // in so many registers
  int row0, column0, lines;
  unsigned stride, offset[KEPT ? COPIES : 1];

  __device__ __forceinline__ TileCopy(int lines_, int stride_)
      : row0(threadIdx.x / ACROSS), column0(threadIdx.x % ACROSS * V), lines(lines_), stride(stride_) {
    if constexpr (KEPT) {
#pragma unroll
      for (int i = 0; i < COPIES; ++i) offset[i] = place(i);
    }
  }
  __device__ __forceinline__ int row(int i) const { return EVEN ? row0 + i * DOWN : (int(threadIdx.x) + i * THREADS) / ACROSS; }
  __device__ __forceinline__ int column(int i) const {
    return EVEN ? column0 : (int(threadIdx.x) + i * THREADS) % ACROSS * V;
  }
  __device__ __forceinline__ int k(int i) const { return TILE::K_RUNS ? column(i) : row(i); }
  __device__ __forceinline__ unsigned place(int i) const {
    return TILE::K_RUNS ? unsigned(min(row(i), lines - 1)) * stride + column(i)
                        : unsigned(row(i)) * stride + min(column(i), lines - V);
  }
  __device__ __forceinline__ unsigned source(int i) const { return KEPT ? offset[KEPT ? i : 0] : place(i); }
  __device__ __forceinline__ int target(int i) const {
    const int byte = column(i) * int(sizeof(E));
    if constexpr (REGULAR)
      return row0 * TILE::ROW_BYTES + i * (DOWN * TILE::ROW_BYTES) + byte % 16 +
             (((byte / 16) ^ Order::turn(row0)) * 16 ^ (DOWN < 8 ? Order::turn(i * DOWN) * 16 : 0));
    return row(i) * TILE::ROW_BYTES + ((byte / 16) ^ Order::turn(row(i))) * 16 + byte % 16;
  }
  __device__ __forceinline__ bool has(int i) const {
    return i < COPIES && (TOTAL % THREADS == 0 || int(threadIdx.x) + i * THREADS < TOTAL);
  }

  // Part `part` of `parts` of the copies to `tile`, of columns of K before `valid`; zeros behind them.
  template <bool GUARDED>
  __device__ __forceinline__ void copy(unsigned char* tile, const E* from, int valid, int part, int parts) const {
    if constexpr (BYTES >= 4) {
#pragma unroll
      for (int i = 0; i < COPIES; ++i) {
        if (i * parts / COPIES != part || !has(i)) continue;
        E* const to = reinterpret_cast<E*>(tile + target(i));
        if constexpr (GUARDED)
          copy_async<V>(to, k(i) < valid ? from + source(i) : from, k(i) < valid);
        else
          copy_async<V>(to, from + source(i));
      }
    } else if (part == 0) {  // element by element through registers, a batch at a time
#pragma unroll 1
      for (int first = 0; first < COPIES; first += BATCH) {
        E values[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
          values[b] = E{};
          if (has(first + b) && (!GUARDED || k(first + b) < valid)) values[b] = from[place(first + b)];
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b)
          if (has(first + b)) *reinterpret_cast<E*>(tile + target(first + b)) = values[b];
      }
    }
  }
};
