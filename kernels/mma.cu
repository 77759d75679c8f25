// mma: C = steps(alpha A B + beta C) on tensor cores by mma.sync, from sm_80 on: bf16, fp16 and tf32 with fp32 sums, int8 with
// int32 sums that become fp32 before alpha. A block computes a BM x BN tile of C, a warp WM x WN of it; tiles of A and B come by
// cp.async through STAGES buffers in shared memory, in an order of 16-byte pieces in which ldmatrix meets no bank conflict, and
// the fragments of the next step of K are read while this one is multiplied. A and B row-major or transposed, int8 only as A
// row-major and B transposed; any M, N, K >= 1. The same bits on every run. Of tf32 the lower 13 bits are not read (no rounding).
//
// Parameters, set at compile time (-DBM=128 -DBN=256 -DBK=32 -DWM=64 -DWN=64 -DSTAGES=4):
//   BM, BN, BK  block tile: rows of C, columns of C, depth of a k-step
//   WM, WN      warp tile
//   STAGES      buffers, 2 or more; STAGES - 1 k-steps are under way
//   COPY_A, COPY_B, COPY_C  bytes of a copy of A, of B, of a store of C: 16 (default), 8, 4; less goes element by element. The
//               strides and addresses are multiples of it: the caller sees to that (mma_launch.fitted)
//   BLOCKS      blocks an SM that the compiler leaves registers for (default 1)
//   SPLIT       1: split-K; 0 (default): a block computes a tile
//   IN, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh; TYPE is float
// Constraints: WM and WN powers of two, 16 or more, that divide BM and BN; BK*sizeof(IN) a power of two, 32 bytes or more; 1024
//   threads; BM and BN, where they run on in memory, multiples of 32 bytes; BM and BN times K, and BK times M and N, < 2^32.
//
// Launch: (BM/WM)*(BN/WN)*32 threads, STAGES*(BM + BN)*BK*sizeof(IN) bytes of dynamic shared memory, blockIdx.z the problem of
//   a batch, grid.x = tiles = ceil(M/BM)*ceil(N/BN), walked group_m >= 1 tile rows together.
// Split-K: each tile is cut into `slices` along K, a block each, all tiles' first slices first: grid.x = tiles*slices, arguments
//   slices and W behind group_m. W holds batch*tiles*slices*BM*BN floats, which `reduce` sums in order: 256 threads, grid.x =
//   tiles*ceil(BM*BN/1024), grid.z the batch.
#include "common/epilogue.cuh"
#include "common/mma.cuh"
#include "common/reduce.cuh"

#ifndef COPY_A
#define COPY_A 16
#endif
#ifndef COPY_B
#define COPY_B 16
#endif
#ifndef COPY_C
#define COPY_C 16
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef SPLIT
#define SPLIT 0
#endif

namespace {

constexpr int at_least(int least, int x) { return x < least ? least : x; }
constexpr bool power_of_two(int x) { return x > 0 && (x & (x - 1)) == 0; }
constexpr int WIDTH = sizeof(IN), STEP = 32 / WIDTH, KSTEPS = BK / STEP;  // a step: what one mma.sync takes of K
constexpr int WARPS_N = BN / WN, T = BM / WM * WARPS_N * 32;
constexpr int MS = WM / 16, NS = WN / 16;  // blocks of 16 rows, of 16 columns, of a warp
using TileA = Tile<IN, !A_TRANSPOSED, BM, BK>;
using TileB = Tile<IN, B_TRANSPOSED, BN, BK>;
constexpr int STAGE = TileA::BYTES + TileB::BYTES;
using CopyA = TileCopy<TileA, copied<IN>(COPY_A), T>;
using CopyB = TileCopy<TileB, copied<IN>(COPY_B), T>;
constexpr int STORED = COPY_C >= 4 * int(sizeof(OUT)) ? 4 : at_least(1, COPY_C / int(sizeof(OUT)));  // results at once
using Element = IN;
using Sum = Mma<IN>::Sum;

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles fill the block tile");
static_assert(power_of_two(WM) && power_of_two(WN) && WM >= 16 && WN >= 16, "wm and wn are powers of two, 16 or more");
static_assert(power_of_two(BK) && BK >= STEP, "bk is a power of two, of 32 bytes or more");
static_assert(STAGES >= 2, "two stages or more");

// Walks along K: what is left over goes first, so that every later tile is whole and its copies need no guard.
struct Walk {
  const IN *A, *B;
  CopyA from_a;
  CopyB from_b;
  int M, N, tiles, left;

  __device__ __forceinline__ Walk(const IN* A_, const IN* B_, int r0, int c0, int k0, int k1, int M_, int N_, int K)
      : A(A_TRANSPOSED ? A_ + (size_t)k0 * M_ + r0 : A_ + (size_t)r0 * K + k0),
        B(B_TRANSPOSED ? B_ + (size_t)c0 * K + k0 : B_ + (size_t)k0 * N_ + c0), from_a(M_ - r0, A_TRANSPOSED ? M_ : K),
        from_b(N_ - c0, B_TRANSPOSED ? K : N_), M(M_), N(N_), tiles((k1 - k0 + BK - 1) / BK), left(k1 - k0 - (tiles - 1) * BK) {}

  __device__ __forceinline__ void advance(int k) {
    A = A_TRANSPOSED ? A + (size_t)k * M : A + k;
    B = B_TRANSPOSED ? B + k : B + (size_t)k * N;
  }
  template <bool GUARDED>
  __device__ __forceinline__ void copy(unsigned char* stage, int part, int parts) const {
    from_a.copy<GUARDED>(stage, A, left, part, parts);
    from_b.copy<GUARDED>(stage + TileA::BYTES, B, left, part, parts);
  }
};

// A warp's part of the product: its fragments of this step and of the next, and its sums.
struct Product {
  Sum sums[MS][2 * NS][4] = {};
  unsigned a[2][MS][4], b[2][NS][4];
  Fragments<TileA, MS, true> from_a;
  Fragments<TileB, NS, false> from_b;

  __device__ __forceinline__ Product(int row, int column) : from_a(row), from_b(column) {}
  __device__ __forceinline__ void load(int to, unsigned stage, int s) {
    from_a.load(a[to], stage, s);
    from_b.load(b[to], stage + TileA::BYTES, s);
  }
  __device__ __forceinline__ void multiply(int from) {
#pragma unroll
    for (int i = 0; i < MS; ++i)
#pragma unroll
      for (int j = 0; j < 2 * NS; ++j) {
        const int n = i % 2 ? 2 * NS - 1 - j : j;  // back and forth: neighbours share an operand
        mma_sync(Element{}, sums[i][n], a[from][i], b[from][n / 2][n % 2 * 2], b[from][n / 2][n % 2 * 2 + 1]);
      }
  }
};

// The barrier stands before the last step of a tile: behind it the next tile has arrived, whose first fragments are read, and
// nobody reads the tile before any more, which the next round copies over.
__device__ __forceinline__ void multiply(Walk& walk, Product& mine, unsigned char* smem) {
  constexpr int PARTS = KSTEPS > 2 ? KSTEPS - 1 : 1;  // of a round's copies, one a step
  walk.copy<true>(smem, 0, 1);
  commit_async();
  walk.advance(walk.left);
#pragma unroll
  for (int s = 1; s < STAGES - 1; ++s) {
    if (s < walk.tiles) {
      walk.copy<false>(smem + s * STAGE, 0, 1);
      walk.advance(BK);
    }
    commit_async();
  }
  wait_async<STAGES - 2>();
  __syncthreads();
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  int now = 0, fill = (STAGES - 1) * STAGE;
  mine.load(0, base, 0);
#pragma unroll 1
  for (int t = 0; t < walk.tiles; ++t) {
    const int then = now == (STAGES - 1) * STAGE ? 0 : now + STAGE;
    const bool more = t + STAGES - 1 < walk.tiles;
#pragma unroll
    for (int s = 0; s < KSTEPS; ++s) {
      if (KSTEPS == 1 && more) walk.copy<false>(smem + fill, 0, 1);
      if (s == KSTEPS - 1) {
        commit_async();
        wait_async<STAGES - 2>();
        __syncthreads();
      }
      mine.load((s + 1) % 2, s == KSTEPS - 1 ? base + then : base + now, (s + 1) % KSTEPS);
      if (KSTEPS > 1 && s < PARTS && more) walk.copy<false>(smem + fill, s, PARTS);
      mine.multiply(s % 2);
    }
    if constexpr (KSTEPS == 1) {
#pragma unroll
      for (int i = 0; i < MS; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) mine.a[0][i][r] = mine.a[1][i][r];
#pragma unroll
      for (int i = 0; i < NS; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) mine.b[0][i][r] = mine.b[1][i][r];
    }
    walk.advance(BK);
    fill = now, now = then;
  }
}

// Four neighbours of row `half` * 8 + lane / 4 of a block of 16 x 16 sums, times alpha: of the two columns that a lane has in
// either half of the block, it gives those of one to its neighbour for two more of the other.
__device__ __forceinline__ void neighbours(TYPE (&four)[4], const Sum (&low)[4], const Sum (&high)[4], int half, TYPE alpha) {
  const bool odd = threadIdx.x & 1;
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    const TYPE mine = TYPE(odd ? high[half * 2 + v] : low[half * 2 + v]), given = TYPE(odd ? low[half * 2 + v] : high[half * 2 + v]);
    const TYPE taken = __shfl_xor_sync(~0u, given, 1);
    four[v] = alpha * (odd ? taken : mine);
    four[v + 2] = alpha * (odd ? mine : taken);
  }
}
// Row and column of their first in the warp tile: row block i / 2, half i % 2; column block j.
__device__ __forceinline__ int row_of(int i) { return i * 8 + threadIdx.x % 32 / 4; }
__device__ __forceinline__ int column_of(int j) { return j * 16 + threadIdx.x % 2 * 8 + threadIdx.x % 4 / 2 * 4; }

#if SPLIT
// part: of the warp tile, in a slice of BM x BN.
__device__ __forceinline__ void store_part(const Product& mine, TYPE* part, TYPE alpha) {
#pragma unroll
  for (int i = 0; i < 2 * MS; ++i)
#pragma unroll
    for (int j = 0; j < NS; ++j) {
      TYPE four[4];
      neighbours(four, mine.sums[i / 2][2 * j], mine.sums[i / 2][2 * j + 1], i % 2, alpha);
      write<4>(part + row_of(i) * BN + column_of(j), four);
    }
}
#else
struct Store {
  const Epilogue& epilogue;
  int M, N, r0, c0;  // of the warp tile

  // What row i's epilogue reads.
  __device__ __forceinline__ void fetch(Operands<STORED> (&operands)[NS * 4 / STORED], int i) const {
    if constexpr (Epilogue::READS) {
      const int r = r0 + row_of(i);
#pragma unroll
      for (int j = 0; j < NS * 4 / STORED; ++j) {
        const int c = c0 + column_of(j * STORED / 4) + j * STORED % 4;
        if (r < M && c < N) epilogue.fetch(operands[j], (size_t)r * N + c, c);
      }
    }
  }
  // What the next row reads is on its way while this one is stored.
  __device__ __forceinline__ void operator()(const Product& mine, TYPE alpha) const {
    Operands<STORED> operands[2][NS * 4 / STORED];
    fetch(operands[0], 0);
#pragma unroll
    for (int i = 0; i < 2 * MS; ++i) {
      if (i + 1 < 2 * MS) fetch(operands[(i + 1) % 2], i + 1);
      const int r = r0 + row_of(i);
#pragma unroll
      for (int j = 0; j < NS; ++j) {
        TYPE four[4];
        neighbours(four, mine.sums[i / 2][2 * j], mine.sums[i / 2][2 * j + 1], i % 2, alpha);
        const int c = c0 + column_of(j);
#pragma unroll
        for (int v = 0; v < 4; v += STORED) {
          TYPE some[STORED];
#pragma unroll
          for (int w = 0; w < STORED; ++w) some[w] = four[v + w];
          if (r < M && c + v < N) epilogue.store(some, operands[i % 2][j * (4 / STORED) + v / STORED], epilogue.C + (size_t)r * N + c + v);
        }
      }
    }
  }
};
#endif

// The epilogue of problem blockIdx.z of a batch.
__device__ __forceinline__ Epilogue epilogue_of(int M, int N, OUT* C, TYPE beta, TYPE scale, const OUT* bias, const OUT* residual) {
  const size_t before = (size_t)blockIdx.z * M * N;
  return {C + before, beta, scale, bias, Steps::HAS<Residual> ? residual + before : residual};
}

extern __shared__ __align__(128) unsigned char smem[];

}  // namespace

extern "C" __global__ void __launch_bounds__(T, BLOCKS)
gemm(int M, int N, int K, const IN* __restrict__ A, const IN* __restrict__ B, OUT* __restrict__ C, TYPE alpha, TYPE beta,
     TYPE scale, const OUT* __restrict__ bias, const OUT* __restrict__ residual, int group_m
#if SPLIT
     , int slices, TYPE* __restrict__ W
#endif
) {
  const int rows = (M + BM - 1) / BM, columns = (N + BN - 1) / BN, warp = threadIdx.x / 32;
  int tile = blockIdx.x, k0 = 0, k1 = K, row, column;
#if SPLIT
  const int tiles = rows * columns, slice = tile / tiles;
  const long long steps = (K + BK - 1) / BK;
  tile %= tiles;
  k0 = int(steps * slice / slices) * BK, k1 = min((long long)K, steps * (slice + 1) / slices * BK);
  W += (((size_t)blockIdx.z * tiles + tile) * slices + slice) * (BM * BN);
#endif
  raster(tile, rows, columns, group_m, row, column);
  A += (size_t)blockIdx.z * M * K, B += (size_t)blockIdx.z * K * N;
  Walk walk(A, B, row * BM, column * BN, k0, k1, M, N, K);
  const int r = warp / WARPS_N * WM, c = warp % WARPS_N * WN;
  Product mine(r, c);
  multiply(walk, mine, smem);
#if SPLIT
  store_part(mine, W + r * BN + c, alpha);
#else
  const Epilogue epilogue = epilogue_of(M, N, C, beta, scale, bias, residual);
  Store{epilogue, M, N, row * BM + r, column * BN + c}(mine, alpha);
#endif
}

#if SPLIT
// Sums the slices of each tile, and finishes it.
extern "C" __global__ void __launch_bounds__(256)
reduce(int M, int N, OUT* __restrict__ C, TYPE, TYPE beta, TYPE scale, const OUT* __restrict__ bias,
       const OUT* __restrict__ residual, int group_m, int slices, const TYPE* __restrict__ W) {
  const size_t tiles = (size_t)((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const Epilogue epilogue = epilogue_of(M, N, C, beta, scale, bias, residual);
  sum_slices<BM, BN>(epilogue, M, N, group_m, 0, slices, W + blockIdx.z * tiles * slices * (BM * BN));
}
#endif
