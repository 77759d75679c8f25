// simt: C = steps(alpha A B + beta C) in fp32 or fp64 on the CUDA cores. A block computes a BM x BN tile of C, a warp WM x WN of
// it, a thread TM x TN; tiles of A and B pass through STAGES buffers in shared memory, where they lie along M and along N: what
// runs on along K in memory is scattered on the way. A and B row-major or transposed; any M, N, K >= 1. The same bits on every
// run, however tiles are split.
//
// Parameters, set at compile time (-DBM=64 -DBN=256 -DBK=8 -DWM=32 -DWN=128 -DTM=8 -DTN=16 -DSTAGES=3 -DREGS=232):
//   BM, BN, BK  block tile: rows of C, columns of C, depth of a k-step
//   WM, WN      warp tile
//   TM, TN      thread tile, in groups of neighbours (16 bytes) that lie as many x lanes apart: LDS.128 meets no bank conflict
//   STAGES      buffers: 1 (load, barrier, store, barrier), 2 (double buffer), 3 and more (pipeline)
//   ASYNC       1 (default): cp.async, 2 stages or more; 0: through registers, 1 or 2 stages
//   VEC         elements of a global load, 1, 2 or 4 (default; fp64: 2 at most)
//   FALLBACK    1 (default): falls back to VEC 1 by itself where a stride or an address forbids VEC. 0: the caller chose VEC for
//               its strides (see simt_launch.fitted); half the code, and often fewer registers
//   BLOCKS      blocks an SM that the compiler leaves registers for (default 1); or REGS, the cap on registers a thread
//   ORDER       how a thread's products are written down: 0 row by row, 1 column by column (default)
//   STREAM_K    1: a persistent grid shares out k-steps evenly; 0 (default): a block computes one tile, or one slice of one
//   TYPE, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh
// Constraints: BM, BN, BK multiples of 4; WM divides BM and WN divides BN; (WM/TM)*(WN/TN) = 32, each a power of two; 1024
//   threads; of a matrix that is scattered, BK over the copied width (16 at most) divides the threads; 227 KiB of shared memory;
//   BM and BN times K, and BK times M and N, < 2^32.
//
// Launch: (BM/WM)*(BN/WN)*32 threads, grid.x only, STAGES*BK*(pitch of A + pitch of B) elements of dynamic shared memory, a pitch
//   being BM or BN, and 16 bytes more if K runs on in memory. There are tiles = ceil(M/BM)*ceil(N/BN), walked group_m >= 1 tile
//   rows together; the first `whole` of them are computed in one go.
// Split-K (STREAM_K=0): each tile from `whole` on is cut into `slices` along K, a block each: grid.x = whole + (tiles - whole)*
//   slices. W holds (tiles - whole)*slices*BM*BN elements, which `reduce` sums in order: 256 threads, grid.x = (tiles - whole)*
//   ceil(BM*BN/1024). All tiles whole: whole = tiles, slices = 1, W null, no reduce. Slices fill the last wave: at 8192^3
//   53.7 TFLOP/s against 52.5 with whole tiles alone.
// Stream-K (STREAM_K=1): every block of the grid must be resident. Block b first computes the tiles b, b + grid, ... below
//   `whole` (a multiple of the grid), then its share of the k-steps of all other tiles, laid end to end: those from share(b) to
//   share(b + 1), see `Shares`. A share begins in one tile, passes over whole ones and ends in another. The block that has a
//   tile's first k-step owns the tile: it comes to it last, when the next blocks, which came to theirs of that tile first, have
//   mostly done so. They put their sums into W and raise a flag; the owner takes them up in order and lowers the flags. W: a
//   flag a block (zero before the first launch, and again after each), up to a multiple of 256 bytes, then BM*BN elements a
//   block. `least`: a share is not cut within so many k-steps of a tile's edge.
//
// Figure (H200 SXM, 2026-11-30, NVRTC 13.5, cold_clean, timed in turn with cuBLAS fp32; configurations picked in another run):
//   geomean 1.065 of cuBLAS over 12 shapes: 1.009 at 2048^3, 1.028 at 4096^3, 1.047 at 8192^3 (53.7 TFLOP/s), 1.165 at
//   128x11008x4096. Bias and GELU fused: 0.8 % over the fastest plain kernel at 4096^3, 2.3 % at 128x11008x4096. The rows are
//   studies/h200/simt_{versus_cublas,fused,fp32}.csv.gz, printed by studies/h200/{versus,fused}.py.
// What decides: which register banks the operands of an FFMA fall into.
//   - A not transposed (LDS.128 along K) changes the bank of a[i] at each k, and accumulators wander: slower.
//   - Accumulators stored as they are must lie in aligned fours, in the banks of b: see store_result.
//   - LDS back to back instead of among FFMA are slower; which of the two ptxas makes hangs on REGS.
//   - Tried and dropped: an inner loop of 4 or 8 columns of K (slower), mbarriers for __syncthreads (no gain).
#include "common/copy.cuh"
#include "common/epilogue.cuh"
#include "common/pipeline.cuh"
#include "common/reduce.cuh"

#ifndef VEC
#define VEC 4
#endif
#ifndef ASYNC
#define ASYNC 1
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef ORDER
#define ORDER 1
#endif
#ifndef FALLBACK
#define FALLBACK 1
#endif
#ifndef STREAM_K
#define STREAM_K 0
#endif
#ifdef REGS
#define BOUNDS __maxnreg__(REGS)
#else
#define BOUNDS __launch_bounds__(T, BLOCKS)
#endif

namespace {

constexpr int LANES = 32;
constexpr int LM = WM / TM, LN = WN / TN;  // lanes of a warp along rows, along columns
constexpr int WARPS_N = BN / WN, T = BM / WM * WARPS_N * LANES;
// A thread's rows and columns come in groups of neighbours that one load reads; groups of one thread lie GM * LM rows or
// GN * LN columns apart, so that the lanes of a load read neighbouring words.
template <int RESULTS>
constexpr int GROUP = RESULTS % WIDEST<TYPE> == 0 ? WIDEST<TYPE> : RESULTS % 2 == 0 ? 2 : 1;
constexpr int GM = GROUP<TM>, GN = GROUP<TN>;
template <int V>
using CopyOfA = Copy<!A_TRANSPOSED, V, BM, BK, T>;
template <int V>
using CopyOfB = Copy<B_TRANSPOSED, V, BN, BK, T>;
constexpr int PITCH_A = CopyOfA<1>::PITCH, PITCH_B = CopyOfB<1>::PITCH;
constexpr int TILE_A = BK * PITCH_A, TILE = TILE_A + BK * PITCH_B;

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles fill the block tile");
static_assert(WM % TM == 0 && WN % TN == 0 && LM * LN == LANES, "thread tiles of 32 lanes fill the warp tile");
static_assert(BK % 4 == 0 && BN % 4 == 0 && BM % 4 == 0, "bm, bn and bk are multiples of 4");
static_assert(VEC == 1 || VEC == 2 || VEC == 4, "vec is 1, 2 or 4");
static_assert(ASYNC ? STAGES >= 2 : STAGES == 1 || STAGES == 2, "1 or 2 stages through registers, 2 or more asynchronous");

// A thread's part of the product of two tiles.
struct Results {
  TYPE acc[TM][TN] = {}, a[TM], b[TN], next_a[TM], next_b[TN];
  int row, column;  // first of this thread in the block tile

  __device__ __forceinline__ Results() {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    // Lanes that differ in bit 0 share rows, those that differ in bit 1 share columns: LDS.128 then passes half a warp at once.
    const int ln = LN == 1 ? 0 : LM == 1 ? lane : (lane & 1) | ((lane >> 2) & (LN / 2 - 1)) << 1;
    const int lm = LM == 1 ? 0 : LN == 1 ? lane : ((lane >> 1) & 1) | (lane / (2 * LN)) << 1;
    row = warp / WARPS_N * WM + lm * GM;
    column = warp % WARPS_N * WN + ln * GN;
  }
  __device__ __forceinline__ int row_of(int i) const { return row + i / GM * GM * LM + i % GM; }
  __device__ __forceinline__ int column_of(int j) const { return column + j / GN * GN * LN + j % GN; }

  __device__ __forceinline__ void fetch(TYPE (&to_a)[TM], TYPE (&to_b)[TN], const TYPE* tile, int k) {
#pragma unroll
    for (int i = 0; i < TM; i += GM) read<GM>(to_a + i, tile + k * PITCH_A + row_of(i));
#pragma unroll
    for (int j = 0; j < TN; j += GN) read<GN>(to_b + j, tile + TILE_A + k * PITCH_B + column_of(j));
  }
  __device__ __forceinline__ void start(const TYPE* tile) { fetch(a, b, tile, 0); }
  __device__ __forceinline__ void ahead(const TYPE* tile, int k) { fetch(next_a, next_b, tile, k); }
  __device__ __forceinline__ void multiply() {
#if ORDER == 0
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        const int s = i % 2 ? TN - 1 - j : j;
        acc[i][s] = multiply_add(a[i], b[s], acc[i][s]);
      }
#else
#pragma unroll
    for (int j = 0; j < TN; ++j)
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        const int s = j % 2 ? TM - 1 - i : i;
        acc[s][j] = multiply_add(a[s], b[j], acc[s][j]);
      }
#endif
#pragma unroll
    for (int i = 0; i < TM; ++i) a[i] = next_a[i];
#pragma unroll
    for (int j = 0; j < TN; ++j) b[j] = next_b[j];
  }
  // Calls f(i, j, place in the block tile) for each group of GN neighbours.
  template <typename F>
  [[maybe_unused]] __device__ __forceinline__ void each_group(F f) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; j += GN) f(i, j, row_of(i) * BN + column_of(j));
  }
};

// Walks along K: what is left over goes first, so that every later tile is whole and its copies need no guard.
template <int VA, int VB>
struct Walk {
  using CopyA = CopyOfA<VA>;
  using CopyB = CopyOfB<VB>;
  const TYPE *A, *B;
  CopyA from_a;
  CopyB from_b;
  int M, N, tiles, left;

  __device__ __forceinline__ Walk(const TYPE* A_, const TYPE* B_, int rows, int columns, int M_, int N_, int K, int depth)
      : A(A_), B(B_), from_a(rows, A_TRANSPOSED ? M_ : K), from_b(columns, B_TRANSPOSED ? K : N_), M(M_), N(N_),
        tiles((depth + BK - 1) / BK), left(tiles > 0 ? depth - (tiles - 1) * BK : 0) {}

  __device__ __forceinline__ void advance(int k) {
    A = A_TRANSPOSED ? A + (size_t)k * M : A + k;
    B = B_TRANSPOSED ? B + k : B + (size_t)k * N;
  }
  __device__ __forceinline__ void copy_first(TYPE* tile) {
    from_a.each(tile, A, [&](int, TYPE* to, const TYPE* at, int k) { copy_async<VA>(to, k < left ? at : A, k < left); });
    from_b.each(tile + TILE_A, B, [&](int, TYPE* to, const TYPE* at, int k) { copy_async<VB>(to, k < left ? at : B, k < left); });
    advance(left);
  }
  __device__ __forceinline__ void copy(TYPE* tile) {
    from_a.each(tile, A, [&](int, TYPE* to, const TYPE* at, int) { copy_async<VA>(to, at); });
    from_b.each(tile + TILE_A, B, [&](int, TYPE* to, const TYPE* at, int) { copy_async<VB>(to, at); });
    advance(BK);
  }
};

// Both stores multiply by alpha even where it is 1: stored as they are, accumulators would have to lie in aligned groups of
// four registers all along, in the banks of b. And without BETA beta is looked at all the same: the main loop that ptxas
// schedules in front of that branch has its LDS apart. What a row's epilogue reads is on its way before the first is needed.
template <int V>
__device__ __forceinline__ void store_result(const Results& mine, const Epilogue& epilogue, int M, int N, TYPE alpha, int r0,
                                             int c0) {
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int r = r0 + mine.row_of(i);
    if (r >= M) continue;
    Operands<GN> operands[TN / GN];
    if constexpr (V >= GN && Epilogue::READS) {
#pragma unroll
      for (int j = 0; j < TN; j += GN) {
        const int c = c0 + mine.column_of(j);
        if (c < N) epilogue.fetch(operands[j / GN], (size_t)r * N + c, c);
      }
    }
#pragma unroll
    for (int j = 0; j < TN; j += GN) {
      const int c = c0 + mine.column_of(j);
      OUT* const to = epilogue.C + (size_t)r * N + c;
      TYPE out[GN];
#pragma unroll
      for (int v = 0; v < GN; ++v) out[v] = alpha * mine.acc[i][j + v];
      if (V >= GN) {
        if (c >= N) continue;
        if (!BETA) epilogue.add_old(out, to);
        epilogue.store(out, operands[j / GN], to);
      } else {
#pragma unroll
        for (int v = 0; v < GN; ++v)
          if (c + v < N) {
            TYPE one[1] = {out[v]};
            if (!BETA) epilogue.add_old(one, to + v);
            epilogue.finish(one[0], (size_t)r * N + c + v, c + v);
          }
      }
    }
  }
}

__device__ __forceinline__ void store_part(Results& mine, TYPE* part, TYPE alpha) {
  mine.each_group([&](int i, int j, int at) {
    TYPE out[GN];
#pragma unroll
    for (int v = 0; v < GN; ++v) out[v] = alpha * mine.acc[i][j + v];
    write<GN>(part + at, out);
  });
}

// The problem, in the order of the kernel's arguments.
struct Problem {
  int M, N, K;
  const TYPE *A, *B;
  TYPE alpha;
  Epilogue epilogue;
  int group_m;

  // Asynchronous copies of what is scattered go element by element.
  template <int V>
  using WalkBy = Walk<ASYNC && !A_TRANSPOSED ? 1 : V, ASYNC && B_TRANSPOSED ? 1 : V>;
  template <int V>
  __device__ __forceinline__ WalkBy<V> walk(int r0, int c0, int k0, int k1) const {
    return {A_TRANSPOSED ? A + (size_t)k0 * M + r0 : A + (size_t)r0 * K + k0,
            B_TRANSPOSED ? B + (size_t)c0 * K + k0 : B + (size_t)k0 * N + c0, M - r0, N - c0, M, N, K, k1 - k0};
  }
};

template <int VA, int VB>
__device__ __forceinline__ void multiply(Walk<VA, VB>& walk, Results& mine, TYPE* smem) {
  if constexpr (!ASYNC)
    through_registers<STAGES, BK, TILE, TILE_A>(walk, mine, smem);
  else if constexpr (STAGES >= 3)
    pipeline<STAGES, BK, TILE>(walk, mine, smem);
  else
    double_buffer<BK, TILE>(walk, mine, smem);
}

#if STREAM_K
// Where the share of each block begins, in k-steps of the tiles from `whole` on, laid end to end.
struct Shares {
  long long total;
  int steps, least;

  __device__ __forceinline__ long long begin(int block) const {
    const long long even = total * block / gridDim.x;
    const int within = int(even % steps);
    return within < least ? even - within : steps - within < least ? even - within + steps : even;
  }
};

// The owner takes up the sums of the blocks behind it, which have the tile's other k-steps, up to `end`: in order, and behind
// its own. Results then hold alpha times their part.
__device__ __forceinline__ void take_up(Results& mine, const Shares& shares, long long end, TYPE alpha, int* flags,
                                        const TYPE* parts) {
  mine.each_group([&](int i, int j, int) {
#pragma unroll
    for (int v = 0; v < GN; ++v) mine.acc[i][j + v] *= alpha;
  });
  long long from = shares.begin(blockIdx.x + 1);
#pragma unroll 1
  for (int peer = blockIdx.x + 1; from < end; ++peer) {
    const long long to = shares.begin(peer + 1);
    if (to == from) continue;  // nothing fell to this one
    from = to;
    if (threadIdx.x == 0) {
      await(flags + peer);
      flags[peer] = 0;
    }
    __syncthreads();
    const TYPE* const part = parts + (size_t)peer * (BM * BN);
    mine.each_group([&](int i, int j, int at) {
      TYPE theirs[GN];
      read<GN>(theirs, part + at);
#pragma unroll
      for (int v = 0; v < GN; ++v) mine.acc[i][j + v] += theirs[v];
    });
  }
}

template <int V>
__device__ __forceinline__ void persist(const Problem& p, int whole, int least, TYPE* W, TYPE* smem) {
  int* const flags = reinterpret_cast<int*>(W);
  TYPE* const parts = W + (gridDim.x * sizeof(int) + 255) / 256 * (256 / sizeof(TYPE));
  const int rows = (p.M + BM - 1) / BM, columns = (p.N + BN - 1) / BN, steps = (p.K + BK - 1) / BK;
  const Shares shares{(long long)(rows * columns - whole) * steps, steps, least};
  long long at = shares.begin(blockIdx.x);
  const long long end = shares.begin(blockIdx.x + 1);
  int tile = blockIdx.x;
#pragma unroll 1
  while (tile < whole || at < end) {
    int first = 0, last = steps, now = tile, row, column;
    const bool shared = tile >= whole;
    if (shared) {
      now = whole + int(at / steps), first = int(at % steps);
      last = int(min((long long)steps, first + end - at));
      at += last - first;
    } else {
      tile += gridDim.x;
    }
    raster(now, rows, columns, p.group_m, row, column);
    __syncthreads();  // nobody reads the last tile's buffers any more
    auto walk = p.walk<V>(row * BM, column * BN, first * BK, min(p.K, last * BK));
    Results mine;
    multiply(walk, mine, smem);
    if (first > 0) {
      store_part(mine, parts + (size_t)blockIdx.x * (BM * BN), p.alpha);
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) raise(flags + blockIdx.x);
      continue;
    }
    TYPE alpha = p.alpha;
    if (last < steps) {
      take_up(mine, shares, at - last + steps, alpha, flags, parts);
      alpha = 1;
    }
    store_result<V>(mine, p.epilogue, p.M, p.N, alpha, row * BM, column * BN);
  }
}
#else
template <int V>
__device__ __forceinline__ void block(const Problem& p, int r0, int c0, int k0, int k1, TYPE* part, TYPE* smem) {
  auto walk = p.walk<V>(r0, c0, k0, k1);
  Results mine;
  multiply(walk, mine, smem);
  if (part)
    store_part(mine, part, p.alpha);
  else
    store_result<V>(mine, p.epilogue, p.M, p.N, p.alpha, r0, c0);
}
#endif

constexpr int V = VEC < WIDEST<TYPE> ? VEC : WIDEST<TYPE>;
extern __shared__ __align__(16) unsigned char smem_bytes[];

}  // namespace

extern "C" __global__ void BOUNDS
gemm(int M, int N, int K, const TYPE* __restrict__ A, const TYPE* __restrict__ B, OUT* __restrict__ C, TYPE alpha, TYPE beta,
     TYPE scale, const OUT* __restrict__ bias, const OUT* __restrict__ residual, int group_m, int whole, int slices,
     TYPE* __restrict__ W) {
  const Problem p{M, N, K, A, B, alpha, {C, beta, scale, bias, residual}, group_m};
#if !STREAM_K
  const int rows = (M + BM - 1) / BM, columns = (N + BN - 1) / BN, steps = (K + BK - 1) / BK;
  int tile = blockIdx.x, k0 = 0, k1 = K, row, column;
  TYPE* part = nullptr;
  if (tile >= whole) {
    const int rest = rows * columns - whole, slice = (tile - whole) / rest, at = (tile - whole) % rest;
    k0 = min(K, int((long long)steps * slice / slices) * BK);
    k1 = min(K, int((long long)steps * (slice + 1) / slices) * BK);
    part = W + ((size_t)at * slices + slice) * (BM * BN);
    tile = whole + at;
  }
  raster(tile, rows, columns, group_m, row, column);
#endif
  TYPE* const smem = reinterpret_cast<TYPE*>(smem_bytes);
  if (!FALLBACK || V == 1 ||
      ((A_TRANSPOSED ? M : K) % V == 0 && (B_TRANSPOSED ? K : N) % V == 0 && aligned(A, V) && aligned(B, V) &&
       p.epilogue.aligned_to(V, N)))
#if STREAM_K
    persist<V>(p, whole, slices, W, smem);
  else
    persist<1>(p, whole, slices, W, smem);
#else
    block<V>(p, row * BM, column * BN, k0, k1, part, smem);
  else
    block<1>(p, row * BM, column * BN, k0, k1, part, smem);
#endif
}

#if !STREAM_K
// Sums the slices of each tile from `whole` on: 256 threads, four results each.
extern "C" __global__ void __launch_bounds__(256)
reduce(int M, int N, OUT* __restrict__ C, TYPE, TYPE beta, TYPE scale, const OUT* __restrict__ bias,
       const OUT* __restrict__ residual, int group_m, int whole, int slices, const TYPE* __restrict__ W) {
  sum_slices<BM, BN>({C, beta, scale, bias, residual}, M, N, group_m, whole, slices, W);
}
#endif
