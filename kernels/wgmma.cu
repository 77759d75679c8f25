// wgmma: C = steps(alpha A B + beta C) on Hopper's tensor cores (sm_90a): bf16, fp16, tf32, fp8 (e4m3), sums in fp32. A block is
// one warpgroup that loads, one thread of it through TMA and mbarriers, and CONSUMERS that multiply; it is persistent, and a
// cluster of blocks shares what it loads. A and B row-major or transposed (tf32 and fp8: both along K, that is layout NT); M and
// N of any size, and a batch. The same bits on every run, however tiles are split.
//
// Parameters, set at compile time (-DIN=bfloat_t -DOUT=bfloat_t -DBM=128 -DBN=256 -DBK=64 -DSTAGES=4 -DCLUSTER_M=2):
//   BM, BN, BK   block tile: rows of C, columns of C, depth of a k-step
//   STAGES       k-steps in shared memory
//   CONSUMERS    1 to 3 warpgroups that multiply. PINGPONG 0: they share each tile; 1: each has a tile of its own, and they take
//                turns at the tensor cores, so that one stores what it has while another multiplies
//   CLUSTER_M, CLUSTER_N  blocks of a cluster along M, which load B's tile for one another, and along N, which load A's
//   SWAP         1: C^T = B^T A^T, so that N is the side of wgmma's 64 rows, and BM goes in steps of 8
//   BLOCKS       blocks an SM that registers are left for
//   HILBERT      1: tiles in the order of a table, an argument
//   STREAM_K     1: k-steps of what is past the last whole waves are shared out evenly
//   IN, OUT, A_TRANSPOSED, B_TRANSPOSED, BETA, STEPS: see common/types.cuh; TYPE is float
// X is the side of the 64 rows, A's (SWAP 0) or B's, Y the other.
// Constraints: X a multiple of 64, and of 64 CONSUMERS if they share it; Y a multiple of 8, at most 256; a thread's sums, X / 64 /
//   (those that share it) * Y / 2, leave registers; Y / 2 + 26 registers at the kernel's start; BK 64 bytes, or a multiple of
//   128; the side that a cluster shares, or BK where it runs along M or N, in eights a block; strides of A and B multiples of 16
//   bytes; k-steps of a tile times slices < 2^31.
//
// Launch: 128 (CONSUMERS + 1) threads, grid.x a multiple of the cluster, every block resident; dynamic shared memory: 1024 to
//   align, the stages, 16 bytes each for barriers, and if C is 16 bits wide two buffers a consumer of 64 by `chunk` elements.
//   Arguments: M, N, K, A, B (unused), C, alpha, beta, scale, bias, residual; tiles, cluster tiles of all problems; whole, those
//   of them that are computed in one go; slices; group_m; Divisors; W; if HILBERT the table: place in a problem -> row * columns
//   + column of a cluster tile; tensor maps of A, B and C, innermost size first, three-dimensional, the last the batch.
// Boxes of the maps: of an operand along K {BK, or 128 bytes of it, side / blocks that share it}; along M or N {ROW_BYTES of it,
//   BK / blocks that share it}, ROW_BYTES the widest of 128, 64 and 32 that pads the side by an eighth at most, else 32; both
//   swizzled by the bytes of their rows. C: {chunk, 64}, SWAP {64, chunk}, swizzled likewise; any map where N is no multiple of
//   8: C is then written otherwise.
// Split-K (STREAM_K 0): tiles from `whole` on are cut into `slices`, which units of clusters compute in order; the last of a tile
//   waits for the others, which are then done or under way, and sums them up in order. Stream-K: `slices` is the least number of
//   k-steps a share has of a tile; the first share of a tile sums up. W: a flag for each part, block of the cluster and
//   warpgroup that shares a tile (zero before the first launch, and again after each), up to a multiple of 256 bytes, then
//   their sums.
//
// Figure (H200 SXM, 2026-11-30, NVRTC 13.5, cold_clean, normal inputs, each timed in turn with cuBLAS; configurations picked in other
//   runs): bf16 1.016 of cuBLAS, geomean of ten large shapes (0.995 to 1.048; 4096^3 798 TFLOP/s, 8192^3 825), 1.025 of six small
//   or skinny ones (0.926 at 1024^3, 1.095 at 64x4096x4096); fp8 1.009 and tf32 1.008 at 4096^3:
//   `studies/h200/tensor_versus.py show studies/h200/tensor_versus.csv.gz`. What bias and GELU add:
//   `studies/h200/fused.py show studies/h200/wgmma_fused.csv.gz`.
// What decides, by clocks that were read inside the kernel while it was written, of which no figure stands here:
//   - The main loop runs at the tensor cores' peak, at the clock that the power cap leaves. What is left to gain lies between
//     tiles and at both ends.
//   - With a cold L2 much of the way to the first data is code that is fetched: tiles are found without divisions, and the code
//     of the warp that loads comes first.
//   - Between tiles the copy engine's issue counts: one box of 64 rows a warpgroup, not one of 16 a warp.
//   - Consumers that take turns hide what is between tiles, at 128x192 or less: better for many tiles, worse for few.
//   - Tried and dropped: four buffers for C (a stage less); one consumer one to three k-steps ahead of the other, with a fused
//     epilogue too; the half of GELU folded into the sum; the bias prefetched to L1, or with SWAP read early.
#include "common/epilogue.cuh"
#include "common/tma.cuh"

#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 1
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
#ifndef SWAP
#define SWAP 0
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef HILBERT
#define HILBERT 0
#endif
#ifndef STREAM_K
#define STREAM_K 0
#endif
#ifndef PINGPONG
#define PINGPONG 0
#endif

// X: the side of wgmma's 64 rows, A's rows or, swapped, B's columns; Y: the other.
#if SWAP
#define WGMMA_N BM
#if B_TRANSPOSED
#define WGMMA_ALONG_X 0
#else
#define WGMMA_ALONG_X 1
#endif
#define WGMMA_ALONG_Y A_TRANSPOSED
#else
#define WGMMA_N BN
#define WGMMA_ALONG_X A_TRANSPOSED
#if B_TRANSPOSED
#define WGMMA_ALONG_Y 0
#else
#define WGMMA_ALONG_Y 1
#endif
#endif
#include "common/wgmma.cuh"

namespace {

constexpr int LANES = 32, GROUP = 128;  // threads of a warp, of a warpgroup
constexpr int X = SWAP ? BN : BM, Y = SWAP ? BM : BN;
constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int SHARE_X = SWAP ? CLUSTER_M : CLUSTER_N, SHARE_Y = SWAP ? CLUSTER_N : CLUSTER_M;
constexpr int THREADS = GROUP * (CONSUMERS + 1);
constexpr int WIDTH = sizeof(IN), SLICES = BK * WIDTH / 32;  // wgmma takes 32 bytes of K
constexpr int SHARERS = PINGPONG ? 1 : CONSUMERS;            // warpgroups that share a tile, or each has its own
constexpr int HIGH = X / 64 / SHARERS;                       // wgmma of a warpgroup side by side along X
constexpr int SUMS = Y / 2;                                  // of a thread, for each

constexpr int least(int a, int b) { return a < b ? a : b; }

// Registers: what a block gets at its start is dealt out anew, the producer's share to the consumers.
constexpr int ENTRY = least(65536 / BLOCKS / THREADS / 8 * 8, 256);
constexpr int PRODUCER_REGS = CONSUMERS == 3 || ENTRY < 128 ? 32 : 40;
constexpr int CONSUMER_REGS = least((ENTRY * (CONSUMERS + 1) - PRODUCER_REGS) / CONSUMERS / 8 * 8, 240);

static_assert(X % (64 * SHARERS) == 0, "warpgroups share the rows of X in sixty-fours");
static_assert(Y % 8 == 0 && Y <= 256, "wgmma takes 8 to 256 columns of Y");
static_assert(BK * WIDTH == 64 || BK * WIDTH % 128 == 0, "a k-step is 64 bytes of K, or a multiple of 128");
static_assert(WIDTH == 2 || (!WGMMA_ALONG_X && !WGMMA_ALONG_Y), "only 16-bit operands may lie along M or N");

// The widest row, in bytes, of a tile that lies along M or N whose columns of such rows pad the side by an eighth at most.
constexpr int row_bytes(int side) {
  for (int bytes = 128; bytes > 32; bytes /= 2) {
    const int row = bytes / WIDTH, padded = (side + row - 1) / row * row;
    if (8 * padded <= 9 * side) return bytes;
  }
  return 32;
}

// A tile in shared memory, columns of rows of ROW_BYTES, swizzled: ALONG: rows run along M or N, one for each k; else along K.
// SHARE blocks of a cluster load a part of it each, for all of them.
template <bool ALONG, int SIDE, int SHARE>
struct Tile {
  static constexpr int ROW_BYTES = ALONG ? row_bytes(SIDE) : least(128, BK * WIDTH);
  static constexpr int ROW = ROW_BYTES / WIDTH, ROWS = ALONG ? BK : SIDE;
  static constexpr int COLUMNS = ALONG ? (SIDE + ROW - 1) / ROW : BK / ROW, COLUMN_BYTES = ROWS * ROW_BYTES;
  static constexpr int BYTES = COLUMNS * COLUMN_BYTES, PART = ROWS / SHARE;
  static constexpr unsigned long long DESCRIPTOR = wgmma_descriptor<ROW_BYTES>(COLUMN_BYTES);
  static_assert(ROWS % (8 * SHARE) == 0, "blocks of a cluster share a tile in rows of eight");

  static __device__ __forceinline__ void load(unsigned to, const TensorMap& map, int first, int k, int z, unsigned barrier,
                                              int part, unsigned short blocks) {
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
      load_box(to + c * COLUMN_BYTES + part * PART * ROW_BYTES, map, (ALONG ? first : k) + c * ROW,
               (ALONG ? k : first) + part * PART, z, barrier, SHARE > 1 ? blocks : 0);
  }
  // Bytes from the tile's first to those of slice j along K, from `line` of the side on.
  static constexpr __device__ int slice(int j, int line) {
    return ALONG ? line / ROW * COLUMN_BYTES + 32 / WIDTH * j * ROW_BYTES
                 : j * 32 / ROW_BYTES * COLUMN_BYTES + j * 32 % ROW_BYTES + line * ROW_BYTES;
  }
};
using TileX = Tile<WGMMA_ALONG_X, X, SHARE_X>;
using TileY = Tile<WGMMA_ALONG_Y, Y, SHARE_Y>;
constexpr int STAGE_BYTES = (TileX::BYTES + TileY::BYTES + 1023) / 1024 * 1024;

// C leaves through shared memory if it is 16 bits wide: a warpgroup's 64 rows of X by CHUNK columns of Y at a time, in rows of C
// of BOX elements, BUFFERS of them at a time: more cost a stage, and gain nothing.
constexpr bool BOXES = sizeof(OUT) == 2;
// The widest part of Y that it has a whole number of: any in eights where they are rows of the box, else what a row may hold.
constexpr int chunk() {
  int most = 64;
  while (Y % most) most -= SWAP ? 8 : most / 2;
  return most;
}
constexpr int BUFFERS = 2, CHUNK = chunk(), BOX = SWAP ? 64 : CHUNK, BUFFER = CHUNK * 64 * int(sizeof(OUT));
constexpr int SWIZZLE = BOX * int(sizeof(OUT)) / 16 - 1 << 4;  // of 16-byte pieces, by bits three higher
constexpr int BUFFERS_AT = STAGES * STAGE_BYTES, BARRIERS_AT = BUFFERS_AT + (BOXES ? CONSUMERS * BUFFERS * BUFFER : 0);
// Division of 0 <= a < 2^31 by a number that the host knows (Granlund and Montgomery 1994): ceil(2^(31 + l) / d) and l - 1, where
// 2^l is the least power of two from d on; 0 and 0 of d = 1.
struct Divisor {
  unsigned magic;
  int shift;
  __device__ __forceinline__ int of(int a) const { return magic ? int(__umulhi(a, magic) >> shift) : a; }
};
// Of tiles in a problem, tiles in a group of rows (along a curve: in a row), rows in a group and in the last one, slices of a
// tile.
struct Divisors {
  Divisor problem, group, height, last, slices;
};

struct Ring {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(int steps) {
    const int to = stage + steps;
    stage = to % STAGES, parity ^= to / STAGES & 1;
  }
};

// A run of k-steps of one cluster's tile. A part that is not the tile's last to be summed goes to `slot` of the workspace; who
// sums takes up those of the slots from `peers` on.
struct Unit {
  int tile, k0, k1, slot, peers;
  __device__ __forceinline__ bool contributes() const { return slot >= 0; }
};

// The units of a cluster, one after another.
#if STREAM_K
struct Units {
  int tiles, whole, depth, least, cluster, clusters, next_whole;
  long long at, end;

  __device__ __forceinline__ Units(int tiles_, int whole_, int depth_, int least_, Divisor)
      : tiles(tiles_), whole(whole_), depth(depth_), least(least_), cluster(blockIdx.x / CLUSTER),
        clusters(gridDim.x / CLUSTER), next_whole(cluster), at(begin(cluster)), end(begin(cluster + 1)) {}
  // Where a cluster's share of the k-steps of the tiles from `whole` on begins, laid end to end.
  __device__ __forceinline__ long long begin(int of) const {
    const long long even = (long long)(tiles - whole) * depth * of / clusters;
    const int within = int(even % depth);
    return within < least ? even - within : depth - within < least ? even - within + depth : even;
  }
  __device__ __forceinline__ int slots() const { return clusters; }
  __device__ __forceinline__ bool next(Unit& u) {
    if (next_whole < whole) {
      u = {next_whole, 0, depth, -1, -1};
      next_whole += clusters;
      return true;
    }
    if (at >= end) return false;
    const int tile = int(at / depth), k0 = int(at % depth), k1 = int(end - at < depth - k0 ? k0 + (end - at) : depth);
    u = {whole + tile, k0, k1, k0 ? cluster : -1, k0 == 0 && k1 < depth ? cluster + 1 : -1};
    at += k1 - k0;
    return true;
  }
  // Calls f(slot) for each that has a part of the tile, in order.
  template <typename F>
  __device__ __forceinline__ void each_peer(const Unit& u, F f) const {
    if (u.peers < 0) return;
    const long long all = (long long)(u.tile - whole + 1) * depth;
    long long from = begin(u.peers);
#pragma unroll 1
    for (int peer = u.peers; from < all; ++peer) {
      const long long to = begin(peer + 1);
      if (to > from) f(peer);
      from = to;
    }
  }
};
#else
struct Units {
  int tiles, whole, depth, slices, clusters, count, now;
  Divisor by_slices;

  __device__ __forceinline__ Units(int tiles_, int whole_, int depth_, int slices_, Divisor by_slices_)
      : tiles(tiles_), whole(whole_), depth(depth_), slices(slices_), clusters(gridDim.x / CLUSTER),
        count(whole_ + (tiles_ - whole_) * slices_), now(blockIdx.x / CLUSTER), by_slices(by_slices_) {}
  __device__ __forceinline__ int slots() const { return (tiles - whole) * (slices - 1); }
  __device__ __forceinline__ bool next(Unit& u) {
    if (now >= count) return false;
    if (now < whole) {
      u = {now, 0, depth, -1, -1};
    } else {
      const int tile = by_slices.of(now - whole), s = now - whole - tile * slices, first = tile * (slices - 1);
      const bool last = s == slices - 1;
      u = {whole + tile, by_slices.of(depth * s), by_slices.of(depth * (s + 1)), last ? -1 : first + s, last && s ? first : -1};
    }
    now += clusters;
    return true;
  }
  template <typename F>
  __device__ __forceinline__ void each_peer(const Unit& u, F f) const {
    if (u.peers < 0) return;
#pragma unroll 1
    for (int s = 0; s < slices - 1; ++s) f(u.peers + s);
  }
};
#endif

// Where this block's tile lies in C, and in which problem of the batch.
struct Place {
  int m, n, z;
};
struct Grid {
  int rows, columns, group_m;
  const int* order;
  Divisors by;

  __device__ __forceinline__ Grid(int M, int N, int group_m_, const int* order_, const Divisors& by_)
      : rows((M + BM * CLUSTER_M - 1) / (BM * CLUSTER_M)), columns((N + BN * CLUSTER_N - 1) / (BN * CLUSTER_N)),
        group_m(group_m_), order(order_), by(by_) {}
  // The same order as `raster` in common/raster.cuh, without its divisions.
  __device__ __forceinline__ Place place(int tile, int rank) const {
    const int z = by.problem.of(tile), within = tile - z * rows * columns;
    int row, column;
    if constexpr (HILBERT) {
      const int at = order[within];
      row = by.group.of(at), column = at - row * columns;
    } else {
      const int group = by.group.of(within), first = group * group_m, rest = within - first * columns;
      const bool last = rows - first < group_m;
      column = last ? by.last.of(rest) : by.height.of(rest);
      row = first + rest - column * (last ? rows - first : group_m);
    }
    return {(row * CLUSTER_M + rank % CLUSTER_M) * BM, (column * CLUSTER_N + rank / CLUSTER_M) * BN, z};
  }
};

// Warpgroups that have a tile each take turns at the tensor cores: one goes on when the one before it has begun its last k-step,
// which is also when no barrier of the ring is more than a phase away from the one it will wait for.
__device__ __forceinline__ void take_turn(int group) { asm volatile("bar.sync %0, 256;" ::"r"(group + 10) : "memory"); }
__device__ __forceinline__ void pass_turn(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"((group + 1) % CONSUMERS + 10) : "memory");
}

__device__ __forceinline__ void meet(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

__device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&r)[4]) {
  if constexpr (SWAP)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3])
                 : "memory");
}
__device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&r)[2]) {
  if constexpr (SWAP)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(r[0]), "r"(r[1]) : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(r[0]), "r"(r[1]) : "memory");
}

struct Consumer {
  float sums[HIGH][SUMS];
  int M, N, group, share, warp, lane;
  TYPE alpha;
  Epilogue epilogue;
  const TensorMap& map;
  unsigned buffers;  // of the warpgroup
  // The bias of a thread's columns is read while the tensor cores are at a tile's last k-step, where registers are left for it:
  // two in a register.
  static constexpr bool AHEAD =
      BOXES && !SWAP && Steps::HAS<Bias> && !Steps::HAS<Residual> && !BETA && HIGH * SUMS + Y / 8 <= 160;
  unsigned bias[AHEAD ? Y / 8 : 1];

  // The first column or row of X of the warpgroup's sums in `high`.
  __device__ __forceinline__ int x_of(int high) const { return (share * HIGH + high) * 64; }

  // The first along Y of a thread's pair p.
  __device__ __forceinline__ int y_of(int p) const { return p * 8 + lane % 4 * 2; }

  __device__ __forceinline__ void fetch_bias(const Place& at) {
    if (!epilogue.aligned_to(2, N)) return;
#pragma unroll
    for (int p = 0; p < Y / 8; ++p) bias[p] = *reinterpret_cast<const unsigned*>(epilogue.bias + min(at.n + y_of(p), N - 2));
  }
  // alpha times V neighbours of a row of C, and what follows.
  template <int V>
  __device__ __forceinline__ void finish(float (&v)[V], const Operands<V>& operands) const {
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] *= alpha;
    epilogue.combine(v, operands);
  }
  template <int V>
  __device__ __forceinline__ void finish(float (&v)[V], const Place& at, int r, int c) const {
    Operands<V> operands;
    if constexpr (Epilogue::READS) {  // past the edge what the last row and column have
      r = min(r, M - 1), c = min(c, N - V);
      epilogue.fetch(operands, ((size_t)at.z * M + r) * N + c, c);
    }
    finish(v, operands);
  }
  // The sums of pair p (two along Y) in half h (eight lower along X), finished, as one register. PAIRS: what follows reads two
  // neighbours of a row of C at once.
  template <typename E, bool PAIRS>
  __device__ __forceinline__ unsigned packed(const Place& at, int high, int p, int h) const {
    float v[2] = {sums[high][p * 4 + 2 * h], sums[high][p * 4 + 2 * h + 1]};
    const int x = x_of(high) + warp * 16 + lane / 4 + 8 * h, y = y_of(p);
    if constexpr (PAIRS && AHEAD) {
      Operands<2> operands;
      operands.bias[0] = widen(unpack<E>(bias[p], 0)), operands.bias[1] = widen(unpack<E>(bias[p], 1));
      finish(v, operands);
    } else if constexpr (PAIRS && !SWAP) {
      finish(v, at, at.m + x, at.n + y);
    } else {
      float a[1] = {v[0]}, b[1] = {v[1]};
      finish(a, at, at.m + (SWAP ? y : x), at.n + (SWAP ? x : y));
      finish(b, at, at.m + (SWAP ? y + 1 : x), at.n + (SWAP ? x : y + 1));
      v[0] = a[0], v[1] = b[0];
    }
    return pack(E(), v[0], v[1]);
  }
  // As many boxes at a time as there are buffers, each sent off by a warp of its own. Rows of C that the copy engine cannot take,
  // not a multiple of 16 bytes, are copied element by element.
  template <typename E, bool PAIRS>
  __device__ __forceinline__ void store_boxes(const Place& at) const {
    constexpr int ALL = HIGH * Y / CHUNK, AT_ONCE = least(BUFFERS, ALL);
    const bool whole = N % 8 == 0;
#pragma unroll
    for (int first = 0; first < ALL; first += AT_ONCE) {
      unsigned pairs[AT_ONCE][CHUNK / 8][2];  // before the buffers are free
#pragma unroll
      for (int i = first; i < least(first + AT_ONCE, ALL); ++i)
        pack_box<E, PAIRS>(pairs[i - first], at, i / (Y / CHUNK), i % (Y / CHUNK) * CHUNK);
      if (lane == 0) store_wait<0>();
      meet(group);
#pragma unroll
      for (int i = first; i < least(first + AT_ONCE, ALL); ++i) fill_box(buffers + (i - first) * BUFFER, pairs[i - first]);
      store_fence();
      meet(group);
      if (whole) {
        const int i = first + warp, x = x_of(i / (Y / CHUNK)), y = i % (Y / CHUNK) * CHUNK;
        if (lane == 0 && warp < AT_ONCE && i < ALL) {
          store_box(map, buffers + warp * BUFFER, at.n + (SWAP ? x : y), at.m + (SWAP ? y : x), at.z);
          store_commit();
        }
      } else {
#pragma unroll 1
        for (int i = first; i < least(first + AT_ONCE, ALL); ++i) {
          const int x = x_of(i / (Y / CHUNK)), y = i % (Y / CHUNK) * CHUNK;
          copy_box<E>(buffers + (i - first) * BUFFER, at.z, at.m + (SWAP ? y : x), at.n + (SWAP ? x : y));
        }
      }
    }
  }
  template <typename E>
  __device__ __forceinline__ void copy_box(unsigned from, int z, int row, int column) const {
#pragma unroll 1
    for (int i = warp * LANES + lane; i < CHUNK * 64; i += GROUP) {
      const int r = i / BOX, c = i % BOX, offset = i * 2;
      if (row + r >= M || column + c >= N) continue;
      E value;
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value.bits) : "r"(from + (offset ^ (offset >> 3 & SWIZZLE))));
      epilogue.C[((size_t)z * M + row + r) * N + column + c] = value;
    }
  }
  // The sums of CHUNK columns of Y, from y on, finished: for each eight columns the upper and the lower half of a warp's rows.
  template <typename E, bool PAIRS>
  __device__ __forceinline__ void pack_box(unsigned (&pairs)[CHUNK / 8][2], const Place& at, int high, int y) const {
#pragma unroll
    for (int p = 0; p < CHUNK / 8; ++p)
#pragma unroll
      for (int h = 0; h < 2; ++h) pairs[p][h] = packed<E, PAIRS>(at, high, y / 8 + p, h);
  }
  __device__ __forceinline__ void fill_box(unsigned to, const unsigned (&pairs)[CHUNK / 8][2]) const {
    constexpr int P = CHUNK % 16 == 0 ? 2 : 1;  // matrices along Y of a store
    // Of the matrix that this lane addresses: along X and along Y, in eights.
    const int along_x = lane / 8 & 1, along_y = lane / 16;
#pragma unroll
    for (int p = 0; p < CHUNK / 8; p += P) {
      unsigned r[2 * P];
#pragma unroll
      for (int i = 0; i < 2 * P; ++i) r[i] = pairs[p + i / 2][i % 2];
      const int row = (SWAP ? (p + along_y) * 8 : warp * 16 + along_x * 8) + lane % 8;
      const int piece = SWAP ? warp * 2 + along_x : p + along_y;
      const unsigned offset = row * BOX * 2 + piece * 16;
      store_matrices(to + (offset ^ (offset >> 3 & SWIZZLE)), r);
    }
  }
  __device__ __forceinline__ void store_each(const Place& at) const {
    const bool pairs = !SWAP && epilogue.aligned_to(2, N);
#pragma unroll
    for (int high = 0; high < HIGH; ++high)
#pragma unroll
      for (int i = 0; i < SUMS; i += 2) {
        const int x = x_of(high) + warp * 16 + lane / 4 + i % 4 * 4, y = y_of(i / 4);
        const int r = at.m + (SWAP ? y : x), c = at.n + (SWAP ? x : y);
        if (pairs) {
          float v[2] = {sums[high][i], sums[high][i + 1]};
          if (r < M && c < N) {
            finish(v, at, r, c);
            OUT out[2] = {Narrow<OUT>::of(v[0]), Narrow<OUT>::of(v[1])};
            write<2>(epilogue.C + ((size_t)at.z * M + r) * N + c, out);
          }
        } else {
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            const int rr = SWAP ? r + v : r, cc = SWAP ? c : c + v;
            float one[1] = {sums[high][i + v]};
            if (rr < M && cc < N) {
              finish(one, at, rr, cc);
              epilogue.C[((size_t)at.z * M + rr) * N + cc] = Narrow<OUT>::of(one[0]);
            }
          }
        }
      }
  }
  __device__ __forceinline__ void store(const Place& at) const {
    if constexpr (!BOXES)
      store_each(at);
    else if (!Epilogue::READS || SWAP || epilogue.aligned_to(2, N))
      store_boxes<OUT, true>(at);
    else
      store_boxes<OUT, false>(at);
  }
};

// Parts of sums in the workspace: for each slot, block of the cluster and warpgroup.
struct Parts {
  int* flags;
  float* sums;
  int mine, thread;  // warpgroups of a cluster are numbered

  __device__ __forceinline__ Parts(float* W, int slots, int rank, int share, int thread_)
      : flags(reinterpret_cast<int*>(W)), sums(W + (slots * CLUSTER * SHARERS * 4 + 255) / 256 * 64),
        mine(rank * SHARERS + share), thread(thread_) {}
  __device__ __forceinline__ int place(int slot) const { return slot * (CLUSTER * SHARERS) + mine; }
  __device__ __forceinline__ float* at(int slot) const { return sums + (size_t)place(slot) * (HIGH * SUMS * GROUP) + thread * 4; }

  __device__ __forceinline__ void give(const Consumer& c, int slot) const {
    float* const to = at(slot);
#pragma unroll
    for (int h = 0; h < HIGH; ++h)
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) write<4>(to + (h * SUMS + i) * GROUP, c.sums[h] + i);
    __threadfence();
    meet(c.group);
    if (thread == 0) raise(flags + place(slot));
  }
  __device__ __forceinline__ void take(Consumer& c, int slot) const {
    if (thread == 0) {
      await(flags + place(slot));
      flags[place(slot)] = 0;
    }
    meet(c.group);
    const float* const from = at(slot);
#pragma unroll
    for (int h = 0; h < HIGH; ++h)
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) {
        float theirs[4];
        read<4>(theirs, from + (h * SUMS + i) * GROUP);
#pragma unroll
        for (int v = 0; v < 4; ++v) c.sums[h][i + v] += theirs[v];
      }
  }
};

}  // namespace

#if HILBERT
#define ORDER_ARGUMENT const int *order,
#else
#define ORDER_ARGUMENT
#endif

extern "C" __global__ void __cluster_dims__(CLUSTER_M* CLUSTER_N, 1, 1) __launch_bounds__(128 * (CONSUMERS + 1), BLOCKS)
    gemm(int M, int N, int K, const IN*, const IN*, OUT* C, TYPE alpha, TYPE beta, TYPE scale, const OUT* bias,
         const OUT* residual, int tiles, int whole, int slices, int group_m, Divisors by, float* W,
         ORDER_ARGUMENT const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
         const __grid_constant__ TensorMap map_c) {
#if !HILBERT
  const int* const order = nullptr;
#endif
  extern __shared__ char dynamic[];
  const unsigned smem = (shared_address(dynamic) + 1023) / 1024 * 1024;
  const unsigned full = smem + BARRIERS_AT, empty = full + 8 * STAGES;
  const int rank = CLUSTER > 1 ? cluster_rank() : 0, cm = rank % CLUSTER_M, cn = rank / CLUSTER_M;
  const int group = __shfl_sync(~0u, threadIdx.x / GROUP, 0) - 1;
  unsigned short share_a = 0, share_b = 0;  // blocks that have the same rows of A, the same columns of B
#pragma unroll
  for (int i = 0; i < CLUSTER_N; ++i) share_a |= 1 << cm + i * CLUSTER_M;
#pragma unroll
  for (int i = 0; i < CLUSTER_M; ++i) share_b |= 1 << i + cn * CLUSTER_M;

  if (threadIdx.x == 0) {
    prefetch(SWAP ? map_b : map_a), prefetch(SWAP ? map_a : map_b);
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, SHARERS * 4 * (CLUSTER_M + CLUSTER_N - 1));
    }
    barrier_init_fence();
  }
  // The warp that loads need not wait for those that multiply, but for other blocks whose barriers it will touch.
  if constexpr (CLUSTER > 1)
    cluster_sync();
  else if (group >= 0)
    asm volatile("bar.sync 9, %0;" ::"n"(CONSUMERS * GROUP + LANES) : "memory");
  else if (threadIdx.x < LANES)
    asm volatile("bar.arrive 9, %0;" ::"n"(CONSUMERS * GROUP + LANES) : "memory");

  if (__builtin_expect(group < 0, true)) {  // its code first: what it loads is waited for by all
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGS));
    if (threadIdx.x == 0) {
      const Grid grid(M, N, group_m, order, by);
      Units units(tiles, whole, (K + BK - 1) / BK, slices, by.slices);
      Unit unit;
      Ring ring;
      for (bool fresh = true; units.next(unit);) {
        const Place at = grid.place(unit.tile, rank);
#pragma unroll 1
        for (int k = unit.k0; k < unit.k1; ++k) {
          const unsigned to = smem + ring.stage * STAGE_BYTES, arrived = full + 8 * ring.stage;
          if (!fresh) barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
          barrier_expect(arrived, TileX::BYTES + TileY::BYTES);
          TileX::load(to, SWAP ? map_b : map_a, SWAP ? at.n : at.m, k * BK, at.z, arrived, SWAP ? cm : cn, SWAP ? share_b : share_a);
          TileY::load(to + TileX::BYTES, SWAP ? map_a : map_b, SWAP ? at.m : at.n, k * BK, at.z, arrived, SWAP ? cn : cm,
                      SWAP ? share_a : share_b);
          ring.advance();
          if (ring.stage == 0) fresh = false;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGS));
    const Grid grid(M, N, group_m, order, by);
    Units units(tiles, whole, (K + BK - 1) / BK, slices, by.slices);
    Ring ring;
    const int thread = threadIdx.x % GROUP, lane = threadIdx.x % LANES, warp = thread / LANES;
    const int share = PINGPONG ? 0 : group;  // of the tile
    Consumer mine{{}, M, N, group, share, warp, lane, alpha, {C, beta, scale, bias, residual}, map_c,
                  smem + BUFFERS_AT + group * BUFFERS * BUFFER};
    const Parts parts(W, units.slots(), rank, share, thread);
    const unsigned released = share_a | share_b;
    const unsigned long long x = TileX::DESCRIPTOR + wgmma_address(smem + TileX::slice(0, share * HIGH * 64));
    const unsigned long long y = TileY::DESCRIPTOR + wgmma_address(smem + TileX::BYTES);

    auto multiply = [&](int add) {
      // Skipped steps hide from the compiler that the stage is the same in all lanes.
      const int now = PINGPONG ? __shfl_sync(~0u, ring.stage, 0) : ring.stage;
      barrier_wait(full + 8 * now, ring.parity);
      const unsigned stage = now * (STAGE_BYTES >> 4);
      wgmma_fence();
#pragma unroll
      for (int j = 0; j < SLICES; ++j)
#pragma unroll
        for (int h = 0; h < HIGH; ++h)
          wgmma(mine.sums[h], x + stage + (TileX::slice(j, h * 64) >> 4), y + stage + (TileY::slice(j, 0) >> 4), j ? 1 : add);
      wgmma_commit();
    };
    auto release = [&](int stage) {
      if constexpr (CLUSTER > 1) {
        if (released >> lane & 1) barrier_arrive(empty + 8 * stage, lane);
      } else {
        if (lane == 0) barrier_arrive(empty + 8 * stage);
      }
    };

    // The next unit of this warpgroup, behind so many of the others, whose k-steps are passed over.
    Unit next;
    int passed;
    bool any, more;
    auto look_ahead = [&](int others) {
      passed = 0, any = false;
#pragma unroll 1
      for (int i = 0; i < others; ++i)
        if (units.next(next)) any = true, passed += next.k1 - next.k0;
      more = units.next(next);
    };
    look_ahead(PINGPONG ? group : 0);
    for (bool first = group == 0; more; first = false) {
      const Unit unit = next;
      if constexpr (PINGPONG) {
        ring.skip(passed);
        if (!first) take_turn(group);
      }
      multiply(0);
      const Place at = grid.place(unit.tile, rank);
      look_ahead(PINGPONG ? CONSUMERS - 1 : 0);
      int last = ring.stage;
      ring.advance();
#pragma unroll 1
      for (int k = unit.k0 + 1; k < unit.k1; ++k) {
        multiply(1);
        wgmma_wait<1>();
        release(last);
        last = ring.stage;
        ring.advance();
      }
      if constexpr (PINGPONG)
        if (any) pass_turn(group);
      if constexpr (Consumer::AHEAD) mine.fetch_bias(at);
      wgmma_wait<0>();
      release(last);
      if (unit.contributes()) {
        parts.give(mine, unit.slot);
      } else {
        units.each_peer(unit, [&](int slot) { parts.take(mine, slot); });
        mine.store(at);
      }
    }
    if (lane == 0) store_wait<0>();
  }
  if constexpr (CLUSTER > 1) {
    __syncwarp();
    cluster_sync();
  }
}
