// wmma: C = steps(alpha A B + beta C) on tensor cores in the portable way, nvcuda::wmma's 16x16x16 (tf32: 16x16x8), whose
// fragments lie where the hardware likes: bf16, fp16, tf32 with fp32 sums, int8 with int32 sums that become fp32 before alpha.
// NVRTC has no mma.h, so the instructions under it are written out (common/wmma.cuh). A block computes a BM x BN tile of C, a
// warp WM x WN of it; tiles of A and B come by cp.async into shared memory as they lie in memory, each row 32 bytes longer; the
// sums go through shared memory to the epilogue. Any layout, any M, N, K >= 1. From sm_80 on, for cp.async and bf16.
//
// Parameters, set at compile time (-DBM=128 -DBN=128 -DBK=32 -DWM=64 -DWN=32 -DSTAGES=2):
//   BM, BN, BK  block tile: rows of C, columns of C, depth of a k-step
//   WM, WN      warp tile
//   STAGES      1: copy, wait, multiply; 2: the next tile is copied while this one is multiplied
//   COPY_A, COPY_B, COPY_C  bytes of a copy of A, of B, of a store of C, as in mma.cu
//   IN, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh; TYPE is float
// Constraints: WM and WN multiples of 16 that divide BM and BN; BK a multiple of 16; 1024 threads; BM and BN times K, and BK times
//   M and N, < 2^32.
//
// Launch: (BM/WM)*(BN/WN)*32 threads, blockIdx.z the problem of a batch, grid.x = ceil(M/BM)*ceil(N/BN), walked group_m >= 1 tile
//   rows together. Dynamic shared memory: STAGES tiles of A and of B, a row of either 32 bytes longer than BK elements if K runs
//   on in memory, than BM or BN elements else; 1536 bytes a warp at the least.
#include "common/epilogue.cuh"
#include "common/raster.cuh"
#include "common/swizzle.cuh"
#include "common/wmma.cuh"

#ifndef COPY_A
#define COPY_A 16
#endif
#ifndef COPY_B
#define COPY_B 16
#endif
#ifndef COPY_C
#define COPY_C 16
#endif

namespace {

constexpr int at_least(int least, int x) { return x < least ? least : x; }
constexpr int WARPS_N = BN / WN, T = BM / WM * WARPS_N * 32, MS = WM / 16, NS = WN / 16, PADDING = 32;
using Element = IN;
using Shape = Wmma<IN>;
using Sum = Shape::Sum;
using TileA = Tile<IN, !A_TRANSPOSED, BM, BK, PADDING>;
using TileB = Tile<IN, B_TRANSPOSED, BN, BK, PADDING>;
constexpr int STAGE = TileA::BYTES + TileB::BYTES, WIDTH = sizeof(IN);
constexpr int STORED = COPY_C >= 4 * int(sizeof(OUT)) ? 4 : at_least(1, COPY_C / int(sizeof(OUT)));  // results at once
// Blocks an SM that registers are left for: of 512 threads with up to 64 sums each, else of 256.
constexpr int BLOCKS = at_least(1, (WM * WN <= 64 * 32 ? 512 : 256) / T);
constexpr int PITCH = 24, PATCH = 16 * PITCH;  // sums of a warp on their way to the epilogue

static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 16 == 0, "warp tiles of 16 x 16 fill the block tile");
static_assert(BK % 16 == 0, "bk is a multiple of 16");
static_assert(STAGES == 1 || STAGES == 2, "1 or 2 stages");

// Copies one tile of A and B after the other.
struct Walk {
  const IN *A, *B;
  TileCopy<TileA, copied<IN>(COPY_A), T> from_a;
  TileCopy<TileB, copied<IN>(COPY_B), T> from_b;
  int M, N, left;

  __device__ __forceinline__ Walk(const IN* A_, const IN* B_, int r0, int c0, int M_, int N_, int K)
      : A(A_TRANSPOSED ? A_ + r0 : A_ + (size_t)r0 * K), B(B_TRANSPOSED ? B_ + (size_t)c0 * K : B_ + c0),
        from_a(M_ - r0, A_TRANSPOSED ? M_ : K), from_b(N_ - c0, B_TRANSPOSED ? K : N_), M(M_), N(N_), left(K) {}

  __device__ __forceinline__ void copy(unsigned char* stage) {
    from_a.copy<true>(stage, A, left, 0, 1);
    from_b.copy<true>(stage + TileA::BYTES, B, left, 0, 1);
    commit_async();
    A = A_TRANSPOSED ? A + (size_t)BK * M : A + BK;
    B = B_TRANSPOSED ? B + BK : B + (size_t)BK * N;
    left -= BK;
  }
};

// Where the fragment `line` rows or columns and `k` of K from the tile's first begins.
template <typename TILE>
__device__ __forceinline__ unsigned fragment(unsigned tile, int line, int k) {
  return tile + (TILE::K_RUNS ? line : k) * TILE::ROW_BYTES + (TILE::K_RUNS ? k : line) * WIDTH;
}

__device__ __forceinline__ void multiply(Sum (&sums)[MS][NS][8], unsigned stage, int row, int column) {
#pragma unroll
  for (int k = 0; k < BK; k += Shape::DEPTH) {
    unsigned a[MS][Shape::WORDS], b[NS][Shape::WORDS];
#pragma unroll
    for (int i = 0; i < MS; ++i) wmma_load_a(Element{}, a[i], fragment<TileA>(stage, row + 16 * i, k), TileA::ROW_BYTES / WIDTH);
#pragma unroll
    for (int j = 0; j < NS; ++j)
      wmma_load_b(Element{}, b[j], fragment<TileB>(stage + TileA::BYTES, column + 16 * j, k), TileB::ROW_BYTES / WIDTH);
#pragma unroll
    for (int i = 0; i < MS; ++i)
#pragma unroll
      for (int j = 0; j < NS; ++j) wmma(Element{}, sums[i][j], a[i], b[j]);
  }
}

// Stores 16 x 16 sums, whose first is C's (r0, c0), by way of a warp's patch of shared memory: a lane has eight neighbours of a row.
__device__ __forceinline__ void store(const Epilogue& epilogue, const Sum (&sums)[8], Sum* patch, int M, int N, TYPE alpha, int r0,
                                      int c0) {
  wmma_store(Element{}, static_cast<unsigned>(__cvta_generic_to_shared(patch)), sums, PITCH);
  __syncwarp();
  const int row = threadIdx.x % 32 / 2, r = r0 + row;
#pragma unroll
  for (int v = 0; v < 8; v += STORED) {
    const int column = threadIdx.x % 2 * 8 + v, c = c0 + column;
    if (r >= M || c >= N) continue;
    const size_t place = (size_t)r * N + c;
    Operands<STORED> operands;
    epilogue.fetch(operands, place, c);
    TYPE some[STORED];
#pragma unroll
    for (int w = 0; w < STORED; ++w) some[w] = alpha * TYPE(patch[row * PITCH + column + w]);
    epilogue.store(some, operands, epilogue.C + place);
  }
  __syncwarp();
}

extern __shared__ __align__(128) unsigned char smem[];

}  // namespace

extern "C" __global__ void __launch_bounds__(T, BLOCKS)
gemm(int M, int N, int K, const IN* __restrict__ A, const IN* __restrict__ B, OUT* __restrict__ C, TYPE alpha, TYPE beta,
     TYPE scale, const OUT* __restrict__ bias, const OUT* __restrict__ residual, int group_m) {
  const int warp = threadIdx.x / 32, r = warp / WARPS_N * WM, c = warp % WARPS_N * WN;
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  int row, column;
  raster(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN, group_m, row, column);
  Walk walk(A + (size_t)blockIdx.z * M * K, B + (size_t)blockIdx.z * K * N, row * BM, column * BN, M, N, K);
  Sum sums[MS][NS][8] = {};
  int now = 0;
  if (STAGES == 2) walk.copy(smem);
#pragma unroll 1
  for (int k = 0; k < K; k += BK) {
    if (STAGES == 1) walk.copy(smem);
    wait_async<0>();
    __syncthreads();
    if (STAGES == 2 && k + BK < K) walk.copy(smem + (STAGE - now));
    multiply(sums, base + now, r, c);
    if (STAGES == 1) __syncthreads();
    if (STAGES == 2) now = STAGE - now;
  }
  __syncthreads();  // nobody reads the tiles any more
  const size_t before = (size_t)blockIdx.z * M * N;
  const Epilogue epilogue{C + before, beta, scale, bias, Steps::HAS<Residual> ? residual + before : residual};
  Sum* const patch = reinterpret_cast<Sum*>(smem) + warp * PATCH;
#pragma unroll
  for (int i = 0; i < MS; ++i)
#pragma unroll
    for (int j = 0; j < NS; ++j)
      store(epilogue, sums[i][j], patch, M, N, alpha, row * BM + r + 16 * i, column * BN + c + 16 * j);
}
