// probe: what a GPU does, read by small kernels: bandwidth of DRAM, L2 and shared memory, FMA rate, latencies, the launch itself.
// gemmsim/bench/probe.py launches them and turns clocks and events into the figures of a hardware file.
//
//   read_bytes    sums x, a multiple of blockDim.x*UNROLL vectors, `passes` times: past L1, so by footprint L2 or DRAM
//   copy_bytes    y = x, as many vectors
//   shared_bytes  LDS.128 without bank conflict, 8*iters a thread; clocks[block] holds what the block took
//   fma_f, fma_d  INNER*CHAINS independent FMA chains' steps an iteration; stamps holds clocks, then ns, of each block
//   chase_l1, chase_l2, chase_shared  one thread follows pointers: `warm` steps, then `steps` that out[0] holds the clocks of
//   link          lays the pointers of a chase down in the order given
//   empty, spin   nothing, and so many clocks of nothing
//   hold_R        built with -DHOLD only: kernels of about R registers a thread, for the driver's occupancy
//
// Nothing may be left out or hoisted by a compiler: loads are volatile asm, their addresses change or depend on the last
// load, and every result could be stored.
// Launch: one dimension; read_bytes and copy_bytes take any grid, 1024 threads a block at most; 48 KiB of static shared memory
//   in shared_bytes.
// Figures: gemmsim probe prints each beside the one that hwspecs/<gpu>.yaml has.
typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef HOLD

constexpr int UNROLL = 4;           // loads of 16 B in flight a thread: 64 KiB an SM at 1024 threads
constexpr int INNER = 8;            // steps of each FMA chain an iteration
constexpr int CHAINS_F = 32;        // fp32 chains a thread
constexpr int CHAINS_D = 16;        // fp64 chains a thread
constexpr u32 NEVER = 0x9e3779b9u;  // no sum of the patterns in use

namespace {

__device__ __forceinline__ u64 clocks_now() {
  u64 c;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c)::"memory");
  return c;
}

__device__ __forceinline__ u64 ns_now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

__device__ __forceinline__ uint4 load_past_l1(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}

__device__ __forceinline__ u32 folded(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

template <typename T>
__device__ __forceinline__ T fused(T a, T b, T c);
template <>
__device__ __forceinline__ float fused(float a, float b, float c) {
  return fmaf(a, b, c);
}
template <>
__device__ __forceinline__ double fused(double a, double b, double c) {
  return fma(a, b, c);
}

template <typename T, int CHAINS>
__device__ __forceinline__ void chains(int iters, T x, T y, u64* stamps, T* sink) {
  T acc[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) acc[i] = T(threadIdx.x + i);
  x += T(threadIdx.x) * T(1e-9);  // registers of each thread, as in a GEMM, not one that the warp shares
  y += T(threadIdx.x) * T(1e-9);
  __syncthreads();
  const u64 ns = ns_now(), clk = clocks_now();
#pragma unroll 1
  for (int n = 0; n < iters; ++n) {
#pragma unroll
    for (int r = 0; r < INNER; ++r)
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) acc[i] = fused(acc[i], x, y);
  }
  T sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sum += acc[i];
  if (sum == T(-1)) *sink = sum;  // chains of positive terms stay positive
  __syncthreads();
  if (threadIdx.x == 0) {
    stamps[2 * blockIdx.x] = clocks_now() - clk;
    stamps[2 * blockIdx.x + 1] = ns_now() - ns;
  }
}

}  // namespace

extern "C" __global__ void empty() {}

extern "C" __global__ void spin(u64 clocks) {
  const u64 start = clocks_now();
  while (clocks_now() - start < clocks) {
  }
}

extern "C" __global__ void __launch_bounds__(1024, 2)
read_bytes(const uint4* x, u64 vectors, int passes, u32* sink) {
  const u64 chunk = (u64)blockDim.x * UNROLL;
  u32 sum = 0;
  for (int pass = 0; pass < passes; ++pass)
    for (u64 i = blockIdx.x * chunk + threadIdx.x; i < vectors; i += gridDim.x * chunk) {
      uint4 v[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) v[u] = load_past_l1(x + i + u * blockDim.x);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) sum ^= folded(v[u]);
    }
  if (sum == NEVER) *sink = sum;
}

extern "C" __global__ void __launch_bounds__(1024, 2) copy_bytes(const uint4* x, uint4* y, u64 vectors) {
  const u64 chunk = (u64)blockDim.x * UNROLL;
  for (u64 i = blockIdx.x * chunk + threadIdx.x; i < vectors; i += gridDim.x * chunk) {
    uint4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = load_past_l1(x + i + u * blockDim.x);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) y[i + u * blockDim.x] = v[u];
  }
}

// step: a multiple of 16 that only the caller knows, so that no load is the last iteration's again
extern "C" __global__ void __launch_bounds__(1024) shared_bytes(int iters, u32 step, u64* clocks, u32* sink) {
  __shared__ uint4 tile[3072];
  for (int i = threadIdx.x; i < 3072; i += blockDim.x) tile[i] = make_uint4(i, 2 * i, 4 * i, 8 * i);
  __syncthreads();
  const u32 base = (u32)__cvta_generic_to_shared(tile) + threadIdx.x * 16;
  u32 offset = 0, sum = 0;
  const u64 start = clocks_now();
#pragma unroll 1
  for (int n = 0; n < iters; ++n) {
    uint4 v[8];
#pragma unroll
    for (int u = 0; u < 8; ++u)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[u].x), "=r"(v[u].y), "=r"(v[u].z), "=r"(v[u].w)
                   : "r"(base + offset + u * 512));
#pragma unroll
    for (int u = 0; u < 8; ++u) sum ^= folded(v[u]);
    offset = (offset + step) & 16383;
  }
  if (sum == NEVER) *sink = sum;
  __syncthreads();
  if (threadIdx.x == 0) clocks[blockIdx.x] = clocks_now() - start;
}

extern "C" __global__ void __launch_bounds__(1024) fma_f(int iters, float x, float y, u64* stamps, float* sink) {
  chains<float, CHAINS_F>(iters, x, y, stamps, sink);
}

extern "C" __global__ void __launch_bounds__(1024) fma_d(int iters, double x, double y, u64* stamps, double* sink) {
  chains<double, CHAINS_D>(iters, x, y, stamps, sink);
}

// order: a permutation of 0..n-1; cell i lies at base + i*stride
extern "C" __global__ void link(u64 base, const u32* order, u32 n, u32 stride) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) *(u64*)(base + (u64)order[i] * stride) = base + (u64)order[i + 1 == n ? 0 : i + 1] * stride;
}

#define CHASE(NAME, LOAD)                                                \
  extern "C" __global__ void NAME(u64 p, int warm, int steps, u64* out) { \
    for (int i = 0; i < warm; ++i) asm volatile(LOAD : "+l"(p)::"memory"); \
    const u64 start = clocks_now();                                      \
    _Pragma("unroll 16") for (int i = 0; i < steps; ++i)                 \
      asm volatile(LOAD : "+l"(p)::"memory");                            \
    out[1] = p;                                                          \
    out[0] = clocks_now() - start;                                       \
  }
CHASE(chase_l1, "ld.global.u64 %0, [%0];")
CHASE(chase_l2, "ld.global.cg.u64 %0, [%0];")

extern "C" __global__ void chase_shared(int steps, u64* out) {
  __shared__ u32 next[1024];
  const u32 base = (u32)__cvta_generic_to_shared(next);
  for (u32 i = threadIdx.x; i < 1024; i += blockDim.x) next[i] = base + 4 * ((i + 33) & 1023);
  __syncthreads();
  u32 p = base;
  const u64 start = clocks_now();
#pragma unroll 16
  for (int i = 0; i < steps; ++i) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(p)::"memory");
  out[1] = p;
  out[0] = clocks_now() - start;
}

#else

// R values that all live at once; the compiler stops at R registers and spills the rest
#define KEEP(R)                                                                    \
  extern "C" __global__ void __maxnreg__(R) hold_##R(float* x, int rounds) {       \
    float v[R];                                                                    \
    _Pragma("unroll") for (int i = 0; i < R; ++i) v[i] = x[i * 1024 + threadIdx.x]; \
    _Pragma("unroll 1") for (int n = 0; n < rounds; ++n)                           \
      _Pragma("unroll") for (int i = 0; i < R; ++i) v[i] = v[i] * v[(i + 1) % R];  \
    _Pragma("unroll") for (int i = 0; i < R; ++i) x[i * 1024 + threadIdx.x] = v[i]; \
  }
KEEP(24) KEEP(32) KEEP(40) KEEP(48) KEEP(56) KEEP(64) KEEP(72) KEEP(80) KEEP(96) KEEP(104) KEEP(112) KEEP(128)
KEEP(144) KEEP(160) KEEP(168) KEEP(192) KEEP(208) KEEP(232) KEEP(255)

#endif
