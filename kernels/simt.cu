// simt: C = alpha A B + beta C in fp32 on the CUDA cores. A block computes a BM x BN tile of C, a warp WM x WN of it, a thread
// TM x TN; tiles of A (transposed on the way) and B pass through STAGES buffers in shared memory. Row-major A, B, C; any M, N,
// K >= 1. Tiles from `whole` on are cut into slices along K, whose parts `reduce` sums in order: the same bits on every run.
//
// Parameters, set at compile time (-DBM=64 -DBN=256 -DBK=8 -DWM=32 -DWN=128 -DTM=8 -DTN=16 -DSTAGES=3 -DREGS=232):
//   BM, BN, BK  block tile: rows of C, columns of C, depth of a k-step
//   WM, WN      warp tile
//   TM, TN      thread tile, in groups of four neighbours that lie 4 x lanes apart: LDS.128 meets no bank conflict
//   STAGES      buffers: 1 (load, barrier, store, barrier), 2 (double buffer), 3 and more (pipeline)
//   ASYNC       1 (default): cp.async, 2 stages or more; 0: through registers, 1 or 2 stages
//   VEC         words of a global load, 1, 2 or 4 (default); falls back to 1 where K, N or a base address forbids it
//   BLOCKS      blocks an SM that the compiler leaves registers for (default 1); or REGS, the cap on registers a thread
//   ORDER       how a thread's products are written down: 0 row by row, 1 column by column (default)
// Launch: gemm: (BM/WM)*(BN/WN)*32 threads, grid.x = whole + (tiles - whole)*slices with tiles = ceil(M/BM)*ceil(N/BN),
//   4*STAGES*BK*(BM + 4 + BN) bytes of dynamic shared memory; group_m >= 1 tile rows are walked together. All tiles whole:
//   whole = tiles, slices = 1, W null. Otherwise W holds (tiles - whole)*slices*BM*BN floats, and reduce follows: 256 threads,
//   grid.x = ceil(BM*BN/1024), grid.y = tiles - whole. Slices fill the last wave: 54.1 against 52.7 TFLOP/s at 8192^3.
// Constraints: BM, BN, BK multiples of 4; WM divides BM and WN divides BN; (WM/TM)*(WN/TN) = 32, each a power of two; BK over
//   the copied width divides the threads; 227 KiB of shared memory; tiles - whole <= 65535; BM*K and BK*N < 2^32.
//
// Figure (H200 SXM, 2026-11-30, cold_clean, interleaved with cuBLAS fp32): geomean 1.058 of cuBLAS over 12 shapes with the best
//   configuration of each (39 of 177 went to all shapes; picked and timed in one run), 1.046 with the one above for all:
//   50.1 TFLOP/s at 2048^3 (1.00), 52.6 at 4096^3 (1.03), 54.1 at 8192^3 (1.06), 47.6 at 128x11008x4096 (1.15). The rows:
//   studies/h200/simt_versus_cublas.csv.gz, simt_fp32_sweep.csv.gz.
// Steps at 4096^3, TFLOP/s (of cuBLAS, 51.1): 64x128x16, 8x8, three blocks an SM 51.1 (1.00); 64x256x8, 8x16, REGS=232 52.3
//   (1.02); its last wave sliced 52.6 (1.03).
// What decides: which register banks the operands of an FFMA fall into.
//   - A not transposed (LDS.128 along K) changes the bank of a[i] at each k, and accumulators wander: slower.
//   - Accumulators stored as they are must lie in aligned fours, in the banks of b: see store_result.
//   - LDS back to back instead of among FFMA are slower; which of the two ptxas makes hangs on REGS.
//   - Tried and dropped: an inner loop of 4 or 8 columns of K (slower), mbarriers for __syncthreads (no gain).
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
constexpr int GM = TM % 4 == 0 ? 4 : TM % 2 == 0 ? 2 : 1, GN = TN % 4 == 0 ? 4 : TN % 2 == 0 ? 2 : 1;
constexpr int PITCH = BM + 4;  // of A's tile, whose rows run along K: what is scattered into it meets no bank twice
constexpr int TILE_A = BK * PITCH, TILE = TILE_A + BK * BN;

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles fill the block tile");
static_assert(WM % TM == 0 && WN % TN == 0 && LM * LN == LANES, "thread tiles of 32 lanes fill the warp tile");
static_assert(BK % 4 == 0 && BN % 4 == 0 && BM % 4 == 0, "bm, bn and bk are multiples of 4");
static_assert(VEC == 1 || VEC == 2 || VEC == 4, "vec is 1, 2 or 4");
static_assert(ASYNC ? STAGES >= 2 : STAGES == 1 || STAGES == 2, "1 or 2 stages through registers, 2 or more asynchronous");

template <int V>
__device__ __forceinline__ void read(float* to, const float* from) {
  if constexpr (V == 4) {
    const float4 w = *reinterpret_cast<const float4*>(from);
    to[0] = w.x, to[1] = w.y, to[2] = w.z, to[3] = w.w;
  } else if constexpr (V == 2) {
    const float2 w = *reinterpret_cast<const float2*>(from);
    to[0] = w.x, to[1] = w.y;
  } else {
    to[0] = *from;
  }
}

template <int V>
__device__ __forceinline__ void write(float* to, const float* from) {
  if constexpr (V == 4)
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  else if constexpr (V == 2)
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
  else
    *to = *from;
}

// Copies V words from global to shared memory in the background.
template <int V>
__device__ __forceinline__ void copy_async(float* to, const float* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (V == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(4 * V));
}

// The same; zeros, and nothing read, if not `valid`.
template <int V>
__device__ __forceinline__ void copy_async(float* to, const float* from, bool valid) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 4 * V : 0;
  if constexpr (V == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(4 * V), "r"(bytes));
}

__device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;"); }
template <int PENDING>
__device__ __forceinline__ void wait_async() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING));
}

// What one thread copies of A's tile, V words along K at once. Lanes take up to 16 V words of a row, then the next
// row. Rows past `rows` repeat the last: what they hold only reaches results that are not stored.
template <int V>
struct CopyA {
  static constexpr int ACROSS = V == 1 && BK % 16 == 0 ? 16 : BK / V, DOWN = T / ACROSS, COUNT = (BM + DOWN - 1) / DOWN;
  static constexpr int REPEATS = BK / (ACROSS * V);
  static_assert(T % ACROSS == 0, "bk is too deep for so few threads");
  int row, column;
  unsigned offset[COUNT];

  __device__ __forceinline__ CopyA(int rows, int stride) : row(threadIdx.x / ACROSS), column(threadIdx.x % ACROSS * V) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) offset[i] = unsigned(min(row + i * DOWN, rows - 1)) * unsigned(stride) + column;
  }
  // Calls f(index, target, source, column) for each copy.
  template <typename F>
  __device__ __forceinline__ void each(float* tile, const float* from, F f) const {
    float* const target = tile + column * PITCH + row;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
      for (int r = 0; r < REPEATS; ++r) {
        const int k = r * ACROSS * V;
        if (BM % DOWN == 0 || row + i * DOWN < BM)
          f(i * REPEATS + r, target + k * PITCH + i * DOWN, from + offset[i] + k, column + k);
      }
  }
};

// What one thread copies of B's tile, V words along N at once. Columns past `columns` repeat the last V.
template <int V>
struct CopyB {
  static constexpr int ACROSS = BN / V, TOTAL = BK * ACROSS, COUNT = (TOTAL + T - 1) / T;
  static constexpr bool EVEN = T % ACROSS == 0;  // a thread keeps its column
  int row0, column0;
  unsigned offset[COUNT];

  __device__ __forceinline__ int row(int i) const {
    return EVEN ? row0 + i * (T / ACROSS) : (int(threadIdx.x) + i * T) / ACROSS;
  }
  __device__ __forceinline__ int column(int i) const {
    return EVEN ? column0 : (int(threadIdx.x) + i * T) % ACROSS * V;
  }
  __device__ __forceinline__ CopyB(int columns, int stride)
      : row0(threadIdx.x / ACROSS), column0(threadIdx.x % ACROSS * V) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) offset[i] = unsigned(row(i)) * unsigned(stride) + min(column(i), columns - V);
  }
  // Calls f(index, target, source, row) for each copy.
  template <typename F>
  __device__ __forceinline__ void each(float* tile, const float* from, F f) const {
    float* const target = tile + TILE_A + row0 * BN + column0;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (TOTAL % T == 0 || int(threadIdx.x) + i * T < TOTAL)
        f(i, EVEN ? target + i * (T / ACROSS * BN) : tile + TILE_A + row(i) * BN + column(i), from + offset[i], row(i));
  }
};

// A thread's part of the product of two tiles.
struct Results {
  float acc[TM][TN] = {}, a[TM], b[TN], next_a[TM], next_b[TN];
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

  __device__ __forceinline__ void fetch(float (&to_a)[TM], float (&to_b)[TN], const float* tile, int k) {
#pragma unroll
    for (int i = 0; i < TM; i += GM) read<GM>(to_a + i, tile + k * PITCH + row_of(i));
#pragma unroll
    for (int j = 0; j < TN; j += GN) read<GN>(to_b + j, tile + TILE_A + k * BN + column_of(j));
  }
  __device__ __forceinline__ void start(const float* tile) { fetch(a, b, tile, 0); }
  __device__ __forceinline__ void ahead(const float* tile, int k) { fetch(next_a, next_b, tile, k); }
  __device__ __forceinline__ void multiply() {
#if ORDER == 0
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        const int s = i % 2 ? TN - 1 - j : j;
        acc[i][s] = fmaf(a[i], b[s], acc[i][s]);
      }
#else
#pragma unroll
    for (int j = 0; j < TN; ++j)
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        const int s = j % 2 ? TM - 1 - i : i;
        acc[s][j] = fmaf(a[s], b[j], acc[s][j]);
      }
#endif
#pragma unroll
    for (int i = 0; i < TM; ++i) a[i] = next_a[i];
#pragma unroll
    for (int j = 0; j < TN; ++j) b[j] = next_b[j];
  }
};

// Walks along K: what is left over goes first, so that every later tile is whole and its copies need no guard.
template <int VA, int VB>
struct Walk {
  const float *A, *B;
  CopyA<VA> from_a;
  CopyB<VB> from_b;
  int N, tiles, left;

  __device__ __forceinline__ Walk(const float* A_, const float* B_, int rows, int columns, int N_, int K, int depth)
      : A(A_), B(B_), from_a(rows, K), from_b(columns, N_), N(N_), tiles((depth + BK - 1) / BK),
        left(tiles > 0 ? depth - (tiles - 1) * BK : 0) {}

  __device__ __forceinline__ void advance(int k) {
    A += k;
    B += (size_t)k * N;
  }
  __device__ __forceinline__ void copy_first(float* tile) {
    from_a.each(tile, A, [&](int, float* to, const float* at, int k) { copy_async<VA>(to, k < left ? at : A, k < left); });
    from_b.each(tile, B, [&](int, float* to, const float* at, int k) { copy_async<VB>(to, k < left ? at : B, k < left); });
    advance(left);
  }
  __device__ __forceinline__ void copy(float* tile) {
    from_a.each(tile, A, [&](int, float* to, const float* at, int) { copy_async<VA>(to, at); });
    from_b.each(tile, B, [&](int, float* to, const float* at, int) { copy_async<VB>(to, at); });
    advance(BK);
  }
};

// STAGES >= 3: the barrier stands before the last column of a tile, and the next tile's first column is read behind it.
template <typename W>
__device__ __forceinline__ void pipeline(W& walk, Results& mine, float* smem) {
  walk.copy_first(smem);
  commit_async();
#pragma unroll
  for (int s = 1; s < STAGES - 1; ++s) {
    if (s < walk.tiles) walk.copy(smem + s * TILE);
    commit_async();
  }
  wait_async<STAGES - 2>();
  __syncthreads();
  float *now = smem, *fill = smem + (STAGES - 1) * TILE;
  mine.start(now);
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    float* const then = now + TILE == smem + STAGES * TILE ? smem : now + TILE;
#pragma unroll
    for (int k = 0; k < BK - 1; ++k) {
      mine.ahead(now, k + 1);
      mine.multiply();
    }
    wait_async<STAGES - 3>();
    __syncthreads();
    mine.ahead(then, 0);
    mine.multiply();
    if (t + STAGES - 1 < walk.tiles) walk.copy(fill);  // over tile t - 1, which nobody reads any more
    commit_async();
    fill = fill + TILE == smem + STAGES * TILE ? smem : fill + TILE;
    now = then;
  }
}

[[maybe_unused]] __device__ __forceinline__ void multiply_tile(Results& mine, const float* tile) {
  mine.start(tile);
#pragma unroll
  for (int k = 0; k < BK; ++k) {
    if (k + 1 < BK) mine.ahead(tile, k + 1);
    mine.multiply();
  }
}

// Two buffers: one is filled while the other is multiplied.
template <typename W>
__device__ __forceinline__ void double_buffer(W& walk, Results& mine, float* smem) {
  walk.copy_first(smem);
  commit_async();
  wait_async<0>();
  __syncthreads();
  float *now = smem, *fill = smem + TILE;
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    if (t + 1 < walk.tiles) walk.copy(fill);
    commit_async();
    multiply_tile(mine, now);
    wait_async<0>();
    __syncthreads();
    float* const swap = now;
    now = fill, fill = swap;
  }
}

// Through registers: the next tile is loaded while this one is multiplied, and stored to the other buffer, or, if there is
// only one, to the same after a barrier.
template <int VA, int VB>
__device__ __forceinline__ void through_registers(Walk<VA, VB>& walk, Results& mine, float* smem) {
  float ra[CopyA<VA>::COUNT * CopyA<VA>::REPEATS][VA], rb[CopyB<VB>::COUNT][VB];
  auto load = [&](int valid) {
    walk.from_a.each(nullptr, walk.A, [&](int i, float*, const float* at, int k) {
#pragma unroll
      for (int v = 0; v < VA; ++v) ra[i][v] = 0.f;
      if (k < valid) read<VA>(ra[i], at);
    });
    walk.from_b.each(nullptr, walk.B, [&](int i, float*, const float* at, int k) {
#pragma unroll
      for (int v = 0; v < VB; ++v) rb[i][v] = 0.f;
      if (k < valid) read<VB>(rb[i], at);
    });
    walk.advance(valid);
  };
  auto store = [&](float* tile) {
    walk.from_a.each(tile, nullptr, [&](int i, float* to, const float*, int) {
#pragma unroll
      for (int v = 0; v < VA; ++v) to[v * PITCH] = ra[i][v];
    });
    walk.from_b.each(tile, nullptr, [&](int i, float* to, const float*, int) { write<VB>(to, rb[i]); });
  };
  load(walk.left);
  store(smem);
  __syncthreads();
  float *now = smem, *fill = smem + (STAGES - 1) * TILE;
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    if (t + 1 < walk.tiles) load(BK);
    multiply_tile(mine, now);
    if (STAGES == 1) __syncthreads();
    if (t + 1 < walk.tiles) store(fill);
    __syncthreads();
    float* const swap = now;
    now = fill, fill = swap;
  }
}

// Both stores multiply by alpha even where it is 1: stored as they are, accumulators would have to lie in aligned groups of
// four registers all along, in the banks of b.
template <int V>
__device__ __forceinline__ void store_result(const Results& mine, int M, int N, float* C, float alpha, float beta, int r0,
                                             int c0) {
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int r = r0 + mine.row_of(i);
    if (r >= M) continue;
#pragma unroll
    for (int j = 0; j < TN; j += GN) {
      const int c = c0 + mine.column_of(j);
      float* const to = C + (size_t)r * N + c;
      float out[GN];
#pragma unroll
      for (int v = 0; v < GN; ++v) out[v] = alpha * mine.acc[i][j + v];
      if (V >= GN) {
        if (c >= N) continue;
        float old[GN];
        if (beta != 0.f) {
          read<GN>(old, to);
#pragma unroll
          for (int v = 0; v < GN; ++v) out[v] = fmaf(beta, old[v], out[v]);
        }
        write<GN>(to, out);
      } else {
#pragma unroll
        for (int v = 0; v < GN; ++v)
          if (c + v < N) to[v] = beta != 0.f ? fmaf(beta, to[v], out[v]) : out[v];
      }
    }
  }
}

__device__ __forceinline__ void store_part(const Results& mine, float* part, float alpha) {
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; j += GN) {
      float out[GN];
#pragma unroll
      for (int v = 0; v < GN; ++v) out[v] = alpha * mine.acc[i][j + v];
      write<GN>(part + mine.row_of(i) * BN + mine.column_of(j), out);
    }
}

// Tile rows in groups of group_m, so that blocks that run together share columns of B and rows of A.
__device__ __forceinline__ void raster(int tile, int rows, int columns, int group_m, int& row, int& column) {
  const int group = tile / (group_m * columns), first = group * group_m;
  const int height = min(rows - first, group_m), within = tile - group * group_m * columns;
  row = first + within % height;
  column = within / height;
}

template <int V>
__device__ __forceinline__ void block(int M, int N, int K, const float* A, const float* B, float* C, float alpha, float beta,
                                      int r0, int c0, int k0, int k1, float* part, float* smem) {
  constexpr int VA = ASYNC ? 1 : V;  // asynchronous copies of A go word by word: it is transposed on the way
  Walk<VA, V> walk(A + (size_t)r0 * K + k0, B + (size_t)k0 * N + c0, M - r0, N - c0, N, K, k1 - k0);
  Results mine;
  if constexpr (!ASYNC)
    through_registers(walk, mine, smem);
  else if constexpr (STAGES >= 3)
    pipeline(walk, mine, smem);
  else
    double_buffer(walk, mine, smem);
  if (part)
    store_part(mine, part, alpha);
  else
    store_result<V>(mine, M, N, C, alpha, beta, r0, c0);
}

__device__ __forceinline__ bool aligned(const void* p, int words) {
  return reinterpret_cast<size_t>(p) % (4 * words) == 0;
}

}  // namespace

extern "C" __global__ void BOUNDS
gemm(int M, int N, int K, const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, float alpha,
     float beta, int group_m, int whole, int slices, float* __restrict__ W) {
  extern __shared__ __align__(16) float smem[];
  const int rows = (M + BM - 1) / BM, columns = (N + BN - 1) / BN, steps = (K + BK - 1) / BK;
  int tile = blockIdx.x, k0 = 0, k1 = K, row, column;
  float* part = nullptr;
  if (tile >= whole) {
    const int rest = rows * columns - whole, slice = (tile - whole) / rest, at = (tile - whole) % rest;
    k0 = min(K, int((long long)steps * slice / slices) * BK);
    k1 = min(K, int((long long)steps * (slice + 1) / slices) * BK);
    part = W + ((size_t)at * slices + slice) * (BM * BN);
    tile = whole + at;
  }
  raster(tile, rows, columns, group_m, row, column);
  if (VEC == 1 || (K % VEC == 0 && N % VEC == 0 && aligned(A, VEC) && aligned(B, VEC) && aligned(C, VEC)))
    block<VEC>(M, N, K, A, B, C, alpha, beta, row * BM, column * BN, k0, k1, part, smem);
  else
    block<1>(M, N, K, A, B, C, alpha, beta, row * BM, column * BN, k0, k1, part, smem);
}

// Sums the slices of each tile from `whole` on, in order: C = sum + beta C. 256 threads, four results each.
extern "C" __global__ void __launch_bounds__(256)
reduce(int M, int N, float* __restrict__ C, float beta, int group_m, int whole, int slices, const float* __restrict__ W) {
  const int at = (blockIdx.x * 256 + threadIdx.x) * 4;
  if (at >= BM * BN) return;
  int row, column;
  raster(whole + blockIdx.y, (M + BM - 1) / BM, (N + BN - 1) / BN, group_m, row, column);
  const int r = row * BM + at / BN, c = column * BN + at % BN;
  if (r >= M || c >= N) return;
  W += (size_t)blockIdx.y * slices * (BM * BN) + at;
  float sum[4] = {};
#pragma unroll 8
  for (int s = 0; s < slices; ++s) {
    float part[4];
    read<4>(part, W + (size_t)s * (BM * BN));
#pragma unroll
    for (int v = 0; v < 4; ++v) sum[v] += part[v];
  }
  float* const to = C + (size_t)r * N + c;
  if (N % 4 == 0 && aligned(C, 4) && beta == 0.f) {
    write<4>(to, sum);
    return;
  }
#pragma unroll
  for (int v = 0; v < 4; ++v)
    if (c + v < N) to[v] = beta != 0.f ? fmaf(beta, to[v], sum[v]) : sum[v];
}
