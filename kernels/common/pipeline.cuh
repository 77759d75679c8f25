<<<<<<< HEAD
// How tiles pass through buffers in shared memory while they are multiplied. BUFFERS of SIZE elements, A's SIZE_A first; DEPTH:
// columns of K in a tile. A walk (W) brings tiles in order: copy_first(tile) and copy(tile) in the background, `tiles` of them, `left` columns in
=======
// How tiles pass through buffers in shared memory while they are multiplied. BUFFERS of SIZE elements; DEPTH: columns of K in a
// tile. A walk (W) brings tiles in order: copy_first(tile) and copy(tile) in the background, `tiles` of them, `left` columns in
>>>>>>> 63d1929
// the first; results (R) multiply: start(tile) reads the first column, ahead(tile, k) another, multiply() takes what was read
// before the last ahead().
#pragma once

#include "types.cuh"

// Three buffers or more: the barrier stands before the last column of a tile, and the next tile's first column is read behind it.
template <int BUFFERS, int DEPTH, int SIZE, typename W, typename R>
__device__ __forceinline__ void pipeline(W& walk, R& mine, TYPE* smem) {
  walk.copy_first(smem);
  commit_async();
#pragma unroll
  for (int s = 1; s < BUFFERS - 1; ++s) {
    if (s < walk.tiles) walk.copy(smem + s * SIZE);
    commit_async();
  }
  wait_async<BUFFERS - 2>();
  __syncthreads();
  TYPE *now = smem, *fill = smem + (BUFFERS - 1) * SIZE;
  mine.start(now);
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    TYPE* const then = now + SIZE == smem + BUFFERS * SIZE ? smem : now + SIZE;
#pragma unroll
    for (int k = 0; k < DEPTH - 1; ++k) {
      mine.ahead(now, k + 1);
      mine.multiply();
    }
    wait_async<BUFFERS - 3>();
    __syncthreads();
    mine.ahead(then, 0);
    mine.multiply();
    if (t + BUFFERS - 1 < walk.tiles) walk.copy(fill);  // over tile t - 1, which nobody reads any more
    commit_async();
    fill = fill + SIZE == smem + BUFFERS * SIZE ? smem : fill + SIZE;
    now = then;
  }
}

template <int DEPTH, typename R>
__device__ __forceinline__ void multiply_tile(R& mine, const TYPE* tile) {
  mine.start(tile);
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
    if (k + 1 < DEPTH) mine.ahead(tile, k + 1);
    mine.multiply();
  }
}

// Two buffers: one is filled while the other is multiplied.
template <int DEPTH, int SIZE, typename W, typename R>
__device__ __forceinline__ void double_buffer(W& walk, R& mine, TYPE* smem) {
  walk.copy_first(smem);
  commit_async();
  wait_async<0>();
  __syncthreads();
  TYPE *now = smem, *fill = smem + SIZE;
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    if (t + 1 < walk.tiles) walk.copy(fill);
    commit_async();
    multiply_tile<DEPTH>(mine, now);
    wait_async<0>();
    __syncthreads();
    TYPE* const swap = now;
    now = fill, fill = swap;
  }
}

// Through registers: the next tile is loaded while this one is multiplied, and stored to the other buffer, or, if there is
// only one, to the same after a barrier.
<<<<<<< HEAD
template <int BUFFERS, int DEPTH, int SIZE, int SIZE_A, typename W, typename R>
=======
template <int BUFFERS, int DEPTH, int SIZE, typename W, typename R>
>>>>>>> 63d1929
__device__ __forceinline__ void through_registers(W& walk, R& mine, TYPE* smem) {
  constexpr int VA = W::CopyA::WIDTH, VB = W::CopyB::WIDTH;
  TYPE ra[W::CopyA::COPIES][VA], rb[W::CopyB::COPIES][VB];
  auto load = [&](int valid) {
    walk.from_a.each(nullptr, walk.A, [&](int i, TYPE*, const TYPE* at, int k) {
#pragma unroll
      for (int v = 0; v < VA; ++v) ra[i][v] = 0;
      if (k < valid) read<VA>(ra[i], at);
    });
    walk.from_b.each(nullptr, walk.B, [&](int i, TYPE*, const TYPE* at, int k) {
#pragma unroll
      for (int v = 0; v < VB; ++v) rb[i][v] = 0;
      if (k < valid) read<VB>(rb[i], at);
    });
    walk.advance(valid);
  };
  auto store = [&](TYPE* tile) {
    walk.from_a.each(tile, nullptr, [&](int i, TYPE* to, const TYPE*, int) { W::CopyA::put(to, ra[i]); });
<<<<<<< HEAD
    walk.from_b.each(tile + SIZE_A, nullptr, [&](int i, TYPE* to, const TYPE*, int) { W::CopyB::put(to, rb[i]); });
=======
    walk.from_b.each(tile + W::TILE_A, nullptr, [&](int i, TYPE* to, const TYPE*, int) { W::CopyB::put(to, rb[i]); });
>>>>>>> 63d1929
  };
  load(walk.left);
  store(smem);
  __syncthreads();
  TYPE *now = smem, *fill = smem + (BUFFERS - 1) * SIZE;
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    if (t + 1 < walk.tiles) load(DEPTH);
    multiply_tile<DEPTH>(mine, now);
    if (BUFFERS == 1) __syncthreads();
    if (t + 1 < walk.tiles) store(fill);
    __syncthreads();
    TYPE* const swap = now;
    now = fill, fill = swap;
  }
}
