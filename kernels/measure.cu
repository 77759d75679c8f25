// measure: what measuring a GEMM needs beside it: a delay, fresh inputs, a flush of the L2, a float64 reference and the
// comparison with it. Compiled by NVRTC where it runs; no headers, so that NVRTC alone is enough.
//
// Element types are numbers: 0 fp32, 1 fp64, 2 fp16, 3 bf16, 4 tf32 (fp32 in memory, rounded to 10 bits of mantissa),
// 5 fp8 (e4m3: 448 at most, no infinity), 6 int8. A batch's problems lie one behind the other.
typedef unsigned long long u64;

__device__ static float half_to_float(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

__device__ static unsigned short float_to_half(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// e4m3: the exponent's bias is 7 in place of 127, and below 2^-6 go steps of 2^-9. CuPy compiles this with subnormals of fp32
// flushed to zero, so none may stand in between.
__device__ static float fp8_to_float(unsigned char x) {
  const unsigned size = x & 127u;
  const float value = size < 8u ? size * 0x1p-9f : __uint_as_float(size == 127u ? 0x7fffffffu : (size << 20) + (120u << 23));
  return x & 128u ? -value : value;
}

__device__ static unsigned char float_to_fp8(float f) {  // to nearest, ties to even; beyond 448, 448
  const float size = fminf(fabsf(f), 448.0f);
  const unsigned bits = __float_as_uint(size), whole = ((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - (120u << 3);
  const unsigned code = f != f ? 127u : size < 0x1p-6f ? (unsigned)rintf(size * 0x1p9f) : whole;
  return code | __float_as_uint(f) >> 31 << 7;
}

__device__ static double load(int type, const void* p, size_t i) {
  if (type == 1) return ((const double*)p)[i];
  if (type == 2) return half_to_float(((const unsigned short*)p)[i]);
  if (type == 3) return __uint_as_float((unsigned)((const unsigned short*)p)[i] << 16);
  if (type == 5) return fp8_to_float(((const unsigned char*)p)[i]);
  if (type == 6) return ((const signed char*)p)[i];
  return ((const float*)p)[i];
}

__device__ static void store(int type, void* p, size_t i, double x) {
  const unsigned bits = __float_as_uint((float)x);
  if (type == 0) ((float*)p)[i] = (float)x;
  if (type == 1) ((double*)p)[i] = x;
  if (type == 2) ((unsigned short*)p)[i] = float_to_half((float)x);
  if (type == 3) ((unsigned short*)p)[i] = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest, ties to even
  if (type == 4) ((float*)p)[i] = __uint_as_float((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu);
  if (type == 5) ((unsigned char*)p)[i] = float_to_fp8((float)x);
  if (type == 6) ((signed char*)p)[i] = (signed char)fmin(fmax(rint(x), -127.0), 127.0);
}

// SplitMix64's output function (Steele, Lea, Flood 2014)
__device__ static u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Holds the stream for ns nanoseconds, so that the host can queue work behind it.
extern "C" __global__ void spin(u64 ns) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

// Standard normal, by Box and Muller; int8: 8 times that, of whose products fp16 holds sums of 16384. Any grid.
extern "C" __global__ void normal(int type, void* out, size_t count, u64 seed) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const u64 a = mix(seed + 2 * i * 0x9e3779b97f4a7c15ull), b = mix(seed + (2 * i + 1) * 0x9e3779b97f4a7c15ull);
    if (type == 1) {
      const double u = ((a >> 11) + 1) * 0x1p-53, v = (b >> 11) * 0x1p-53;
      store(type, out, i, sqrt(-2.0 * log(u)) * cospi(2.0 * v));
    } else {
      const float u = ((unsigned)(a >> 40) + 1) * 0x1p-24f, v = (unsigned)(b >> 40) * 0x1p-24f;
      store(type, out, i, (type == 6 ? 8.0f : 1.0f) * sqrtf(-2.0f * logf(u)) * cospif(2.0f * v));
    }
  }
}

// out[i] = in[i] in float64; any grid.
extern "C" __global__ void widen(int type, const void* in, double* out, size_t count) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) out[i] = load(type, in, i);
}

__device__ static double block_sum(double x, double* shared) {
  shared[threadIdx.x] = x;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = shared[0];
  __syncthreads();
  return sum;
}

// out[p*lines + i] = Euclidean norm of the `length` numbers from x[p*lines*length + i*outer] on, `inner` apart; a block of 256
// threads each.
extern "C" __global__ void norms(const double* x, size_t length, size_t outer, size_t inner, size_t lines, double* out) {
  __shared__ double shared[256];
  const double* row = x + blockIdx.x / lines * lines * length + blockIdx.x % lines * outer;
  double sum = 0;
  for (size_t j = threadIdx.x; j < length; j += blockDim.x) sum += row[j * inner] * row[j * inner];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) out[blockIdx.x] = sqrt(sum);
}

// ref = steps(alpha ref + beta before), in place; steps: four bits each, first step lowest: 1 bias (a row of columns),
// 2 relu, 3 gelu (tanh form), 4 silu, 5 residual, 6 scale. `type` is that of C, before, bias and residual: fp8 ends at 448.
// rows: of all problems; any grid.
extern "C" __global__ void finish(double* ref, size_t rows, size_t columns, double alpha, double beta, double scale,
                                  int type, const void* before, const void* bias, const void* residual, u64 steps) {
  const size_t step = (size_t)gridDim.x * blockDim.x, count = rows * columns;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    double x = alpha * ref[i];
    if (beta != 0) x += beta * load(type, before, i);
    for (u64 left = steps; left; left >>= 4) {
      const int what = left & 15;
      if (what == 1) x += load(type, bias, i % columns);
      if (what == 2) x = x > 0 ? x : 0;
      if (what == 3) x = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      if (what == 4) x = x / (1 + exp(-x));
      if (what == 5) x += load(type, residual, i);
      if (what == 6) x *= scale;
    }
    ref[i] = type == 5 ? fmin(fmax(x, -448.0), 448.0) : x;
  }
}

// Adds up over c, `batch` times M x N, against ref: found[0] += (c - ref)^2, [1] += ref^2, [2] += not a finite number,
// [3] = max of |c - ref| / bound, bound = product |row of A| |column of B| + fixed + relative |ref|. 256 threads, any grid.
extern "C" __global__ void compare(int type, const void* c, const double* ref, size_t rows, size_t columns, size_t batch,
                                   const double* norm_a, const double* norm_b, double product, double fixed,
                                   double relative, double* found) {
  __shared__ double shared[256];
  const size_t step = (size_t)gridDim.x * blockDim.x, each = rows * columns, count = batch * each;
  double error = 0, size = 0, broken = 0, worst = 0;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const double got = load(type, c, i), want = ref[i], off = fabs(got - want);
    size += want * want;
    if (!(fabs(got) <= 1.7976931348623157e308)) {
      broken += 1;
      continue;
    }
    error += off * off;
    const double bound = product * norm_a[i / columns] * norm_b[i / each * columns + i % columns] + fixed + relative * fabs(want);
    worst = fmax(worst, off / bound);
  }
  error = block_sum(error, shared);
  size = block_sum(size, shared);
  broken = block_sum(broken, shared);
  shared[threadIdx.x] = worst;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fmax(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  atomicAdd(found, error);
  atomicAdd(found + 1, size);
  atomicAdd(found + 2, broken);
  atomicMax((u64*)(found + 3), (u64)__double_as_longlong(shared[0]));  // of numbers >= 0 the bits are in order
}

// Reads count words of 16 bytes: what was in the L2 gives way to clean lines. `data` holds zeros, so `sink`
// is never written.
extern "C" __global__ void sweep(const uint4* data, size_t count, unsigned* sink) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 v = data[i];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x9e3779b9u) *sink = sum;
}

template <typename Real>
__device__ static void apply(int type, void* c, size_t rows, size_t columns, Real scale, const void* bias,
                             const void* residual, u64 steps) {
  const size_t step = (size_t)gridDim.x * blockDim.x, count = rows * columns;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    Real x = (Real)load(type, c, i);
    for (u64 left = steps; left; left >>= 4) {
      const int what = left & 15;
      if (what == 1) x += (Real)load(type, bias, i % columns);
      if (what == 2) x = x > 0 ? x : 0;
      if (what == 3) x = (Real)0.5 * x * (1 + tanh((Real)0.7978845608028654 * (x + (Real)0.044715 * x * x * x)));
      if (what == 4) x = x / (1 + exp(-x));
      if (what == 5) x += (Real)load(type, residual, i);
      if (what == 6) x *= scale;
    }
    store(type, c, i, x);
  }
}

// Applies the steps of `finish` to C in place: the epilogue as a kernel of its own, in fp32 (C in fp64: fp64); any grid.
extern "C" __global__ void epilogue(int type, void* c, size_t rows, size_t columns, double scale, const void* bias,
                                    const void* residual, u64 steps) {
  if (type == 1) apply<double>(type, c, rows, columns, scale, bias, residual, steps);
  else apply<float>(type, c, rows, columns, (float)scale, bias, residual, steps);
}
