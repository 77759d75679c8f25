// What becomes of a sum before it is stored: C = steps(alpha sum + beta C), the steps in the order of the macro STEPS, then
// the cast to OUT; all in registers, and all in TYPE until the cast.
#pragma once

#include "types.cuh"

// What V neighbours of a row of C need from memory; only what the epilogue uses is ever read.
template <int V>
struct Operands {
  TYPE old[V], bias[V], residual[V];
};

// x / (1 + exp(-z)). An exponential that overflows gives zero, as it should.
__device__ __forceinline__ float times_sigmoid(float x, float z) { return __fdividef(x, 1.f + expf(-z)); }
__device__ __forceinline__ double times_sigmoid(double x, double z) { return x / (1. + exp(-z)); }

// The steps: of(value, bias, residual, scale).
struct Bias {
  static __device__ __forceinline__ TYPE of(TYPE x, TYPE bias, TYPE, TYPE) { return x + bias; }
};
struct Relu {
  static __device__ __forceinline__ TYPE of(TYPE x, TYPE, TYPE, TYPE) { return x < TYPE(0) ? TYPE(0) : x; }  // keeps a NaN
};
// To 16 bits or fewer the hardware's tanh does, one instruction that errs by 2^-11 at most (PTX ISA, tanh.approx.f32): x/2 times
// that is below what rounding takes off |x|.
constexpr bool NARROW = sizeof(OUT) <= 2 && sizeof(TYPE) == 4;
// x / (1 + exp(-2 u)) = x/2 (1 + tanh(u))
__device__ __forceinline__ float times_logistic(float x, float u) {
  const float half = 0.5f * x;
  return fmaf(half, tanh_approximate(u), half);
}
// The tanh form, x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), otherwise written as x sigmoid(2u): the same number, and
// exact to rounding for large negative x, where 1 + tanh(u) cancels.
struct Gelu {
  static __device__ __forceinline__ TYPE of(TYPE x, TYPE, TYPE, TYPE) {
    if constexpr (NARROW)
      return times_logistic(x, x * fmaf(0.0356774081363f * x, x, 0.7978845608028654f));
    else
      return times_sigmoid(x, TYPE(1.5957691216057308) * x * multiply_add(TYPE(0.044715) * x, x, TYPE(1)));
  }
};
struct Silu {
  static __device__ __forceinline__ TYPE of(TYPE x, TYPE, TYPE, TYPE) {
    if constexpr (NARROW)
      return times_logistic(x, 0.5f * x);
    else
      return times_sigmoid(x, x);
  }
};
struct Residual {
  static __device__ __forceinline__ TYPE of(TYPE x, TYPE, TYPE residual, TYPE) { return x + residual; }
};
struct Scale {
  static __device__ __forceinline__ TYPE of(TYPE x, TYPE, TYPE, TYPE scale) { return x * scale; }
};

template <typename A, typename B>
constexpr bool SAME = false;
template <typename A>
constexpr bool SAME<A, A> = true;

template <typename... S>
struct Chain {
  template <typename Step>
  static constexpr bool HAS = (SAME<Step, S> || ... || false);
  static constexpr bool ANY = sizeof...(S) > 0;
  static __device__ __forceinline__ TYPE apply(TYPE x, [[maybe_unused]] TYPE bias, [[maybe_unused]] TYPE residual,
                                               [[maybe_unused]] TYPE scale) {
    ((x = S::of(x, bias, residual, scale)), ...);
    return x;
  }
};
using Steps = Chain<STEPS>;

struct Epilogue {
  OUT* C;
  TYPE beta, scale;
  const OUT *bias, *residual;
  static constexpr bool READS = BETA || Steps::HAS<Bias> || Steps::HAS<Residual>;

  // Reads what V neighbours need; `at` is the place of the first in C, `column` its column.
  template <int V>
  __device__ __forceinline__ void fetch(Operands<V>& operands, size_t at, int column) const {
    if constexpr (BETA) fetch(operands.old, C + at);
    if constexpr (Steps::HAS<Bias>) fetch(operands.bias, bias + column);
    if constexpr (Steps::HAS<Residual>) fetch(operands.residual, residual + at);
  }

  // Stores V neighbours, of which `sum` holds alpha times the sum. In place: a copy of the sums on the way to the store moves
  // the registers of simt's main loop.
  template <int V>
  __device__ __forceinline__ void store(TYPE (&sum)[V], const Operands<V>& operands, OUT* to) const {
    if constexpr (BETA) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] = multiply_add(beta, operands.old[v], sum[v]);
    }
    if constexpr (Steps::ANY) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] = Steps::apply(sum[v], operands.bias[v], operands.residual[v], scale);
    }
    if constexpr (SAME<OUT, TYPE>) {
      write<V>(to, sum);
    } else {
      OUT out[V];
#pragma unroll
      for (int v = 0; v < V; ++v) out[v] = Narrow<OUT>::of(sum[v]);
      write<V>(to, out);
    }
  }

  // What `store` stores, but for the cast: `sum` holds alpha times the sum.
  template <int V>
  __device__ __forceinline__ void combine(TYPE (&sum)[V], const Operands<V>& operands) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if constexpr (BETA) sum[v] = multiply_add(beta, operands.old[v], sum[v]);
      if constexpr (Steps::ANY) sum[v] = Steps::apply(sum[v], operands.bias[v], operands.residual[v], scale);
    }
  }

  // Adds beta C if there is a beta after all, for a kernel compiled without BETA.
  template <int V>
  __device__ __forceinline__ void add_old(TYPE (&sum)[V], const OUT* from) const {
    if (beta != TYPE(0)) {
      OUT old[V];
      read<V>(old, from);
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] = multiply_add(beta, widen(old[v]), sum[v]);
    }
  }

  // One result, from reading to storing.
  __device__ __forceinline__ void finish(TYPE sum, size_t at, int column) const {
    Operands<1> operands;
    fetch(operands, at, column);
    TYPE one[1] = {sum};
    store(one, operands, C + at);
  }

  // Whether V neighbours can be read and written at once, wherever a row has so many whole groups.
  __device__ __forceinline__ bool aligned_to(int V, int N) const {
    return N % V == 0 && aligned(C, V) && (!Steps::HAS<Bias> || aligned(bias, V)) &&
           (!Steps::HAS<Residual> || aligned(residual, V));
  }

 private:
  template <int V>
  static __device__ __forceinline__ void fetch(TYPE (&to)[V], const OUT* from) {
    OUT raw[V];
    read<V>(raw, from);
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = widen(raw[v]);
  }
};
