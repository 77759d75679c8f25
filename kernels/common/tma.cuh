// The copy engine of sm_90: boxes of a tensor to and from shared memory, by tensor maps that the host has encoded. Coordinates
// count elements, the innermost first; what lies outside of the tensor comes as zeros, and is not stored.
#pragma once

#include "barrier.cuh"

struct alignas(64) TensorMap {
  char opaque[128];
};

__device__ __forceinline__ void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// A box to `to`; its bytes count at `barrier`. blocks: the mask of the cluster's blocks that get it, each at the same addresses;
// 0: this one alone.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, int x, int y, int z, unsigned barrier,
                                         unsigned short blocks) {
  if (blocks == 0)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], "
        "[%2], %6;" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
        : "memory");
}

// A box from `from`, in the background. What threads wrote there must have passed `store_fence` in each of them, and a barrier.
__device__ __forceinline__ void store_box(const TensorMap& map, unsigned from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                   &map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
}
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void store_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Waits until all stores of this thread but the last PENDING groups have read what they store.
template <int PENDING>
__device__ __forceinline__ void store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
