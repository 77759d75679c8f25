// wgmma (sm_90a): a warpgroup of four warps multiplies 64 rows of X by N columns of Y, both in shared memory, 32 bytes of K at a
// time, into fp32 sums in registers. Its instructions by the type of the operands, its descriptors, its three waits.
#pragma once

#include "types.cuh"

#define WGMMA_PASTE_(a, b) a##b
#define WGMMA_PASTE(a, b) WGMMA_PASTE_(a, b)
#define WGMMA_TEXT_(x) #x
#define WGMMA_TEXT(x) WGMMA_TEXT_(x)

// What follows m64n<N> in the instruction's name, and its last operands: whether X and Y lie along M and N (16-bit alone can).
#define WGMMA_NAME_bfloat_t "k16.f32.bf16.bf16"
#define WGMMA_NAME_half_t "k16.f32.f16.f16"
#define WGMMA_NAME_tf32_t "k8.f32.tf32.tf32"
#define WGMMA_NAME_e4m3_t "k32.f32.e4m3.e4m3"
#define WGMMA_ALONG_bfloat_t(x, y) ", " #x ", " #y
#define WGMMA_ALONG_half_t(x, y) ", " #x ", " #y
#define WGMMA_ALONG_tf32_t(x, y)
#define WGMMA_ALONG_e4m3_t(x, y)

// For each N: the places of the sums in the text of the instruction, the numbers of the three operands behind them, the sums.
#define WGMMA_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_SUMS_8 "%0, %1, %2, %3"
#define WGMMA_REST_8(f) f(4, 5, 6)
#define WGMMA_HELD_8 WGMMA_FOUR(0)
#define WGMMA_SUMS_16 WGMMA_SUMS_8 ", %4, %5, %6, %7"
#define WGMMA_REST_16(f) f(8, 9, 10)
#define WGMMA_HELD_16 WGMMA_HELD_8, WGMMA_FOUR(4)
#define WGMMA_SUMS_24 WGMMA_SUMS_16 ", %8, %9, %10, %11"
#define WGMMA_REST_24(f) f(12, 13, 14)
#define WGMMA_HELD_24 WGMMA_HELD_16, WGMMA_FOUR(8)
#define WGMMA_SUMS_32 WGMMA_SUMS_24 ", %12, %13, %14, %15"
#define WGMMA_REST_32(f) f(16, 17, 18)
#define WGMMA_HELD_32 WGMMA_HELD_24, WGMMA_FOUR(12)
#define WGMMA_SUMS_40 WGMMA_SUMS_32 ", %16, %17, %18, %19"
#define WGMMA_REST_40(f) f(20, 21, 22)
#define WGMMA_HELD_40 WGMMA_HELD_32, WGMMA_FOUR(16)
#define WGMMA_SUMS_48 WGMMA_SUMS_40 ", %20, %21, %22, %23"
#define WGMMA_REST_48(f) f(24, 25, 26)
#define WGMMA_HELD_48 WGMMA_HELD_40, WGMMA_FOUR(20)
#define WGMMA_SUMS_56 WGMMA_SUMS_48 ", %24, %25, %26, %27"
#define WGMMA_REST_56(f) f(28, 29, 30)
#define WGMMA_HELD_56 WGMMA_HELD_48, WGMMA_FOUR(24)
#define WGMMA_SUMS_64 WGMMA_SUMS_56 ", %28, %29, %30, %31"
#define WGMMA_REST_64(f) f(32, 33, 34)
#define WGMMA_HELD_64 WGMMA_HELD_56, WGMMA_FOUR(28)
#define WGMMA_SUMS_72 WGMMA_SUMS_64 ", %32, %33, %34, %35"
#define WGMMA_REST_72(f) f(36, 37, 38)
#define WGMMA_HELD_72 WGMMA_HELD_64, WGMMA_FOUR(32)
#define WGMMA_SUMS_80 WGMMA_SUMS_72 ", %36, %37, %38, %39"
#define WGMMA_REST_80(f) f(40, 41, 42)
#define WGMMA_HELD_80 WGMMA_HELD_72, WGMMA_FOUR(36)
#define WGMMA_SUMS_88 WGMMA_SUMS_80 ", %40, %41, %42, %43"
#define WGMMA_REST_88(f) f(44, 45, 46)
#define WGMMA_HELD_88 WGMMA_HELD_80, WGMMA_FOUR(40)
#define WGMMA_SUMS_96 WGMMA_SUMS_88 ", %44, %45, %46, %47"
#define WGMMA_REST_96(f) f(48, 49, 50)
#define WGMMA_HELD_96 WGMMA_HELD_88, WGMMA_FOUR(44)
#define WGMMA_SUMS_104 WGMMA_SUMS_96 ", %48, %49, %50, %51"
#define WGMMA_REST_104(f) f(52, 53, 54)
#define WGMMA_HELD_104 WGMMA_HELD_96, WGMMA_FOUR(48)
#define WGMMA_SUMS_112 WGMMA_SUMS_104 ", %52, %53, %54, %55"
#define WGMMA_REST_112(f) f(56, 57, 58)
#define WGMMA_HELD_112 WGMMA_HELD_104, WGMMA_FOUR(52)
#define WGMMA_SUMS_120 WGMMA_SUMS_112 ", %56, %57, %58, %59"
#define WGMMA_REST_120(f) f(60, 61, 62)
#define WGMMA_HELD_120 WGMMA_HELD_112, WGMMA_FOUR(56)
#define WGMMA_SUMS_128 WGMMA_SUMS_120 ", %60, %61, %62, %63"
#define WGMMA_REST_128(f) f(64, 65, 66)
#define WGMMA_HELD_128 WGMMA_HELD_120, WGMMA_FOUR(60)
#define WGMMA_SUMS_136 WGMMA_SUMS_128 ", %64, %65, %66, %67"
#define WGMMA_REST_136(f) f(68, 69, 70)
#define WGMMA_HELD_136 WGMMA_HELD_128, WGMMA_FOUR(64)
#define WGMMA_SUMS_144 WGMMA_SUMS_136 ", %68, %69, %70, %71"
#define WGMMA_REST_144(f) f(72, 73, 74)
#define WGMMA_HELD_144 WGMMA_HELD_136, WGMMA_FOUR(68)
#define WGMMA_SUMS_152 WGMMA_SUMS_144 ", %72, %73, %74, %75"
#define WGMMA_REST_152(f) f(76, 77, 78)
#define WGMMA_HELD_152 WGMMA_HELD_144, WGMMA_FOUR(72)
#define WGMMA_SUMS_160 WGMMA_SUMS_152 ", %76, %77, %78, %79"
#define WGMMA_REST_160(f) f(80, 81, 82)
#define WGMMA_HELD_160 WGMMA_HELD_152, WGMMA_FOUR(76)
#define WGMMA_SUMS_168 WGMMA_SUMS_160 ", %80, %81, %82, %83"
#define WGMMA_REST_168(f) f(84, 85, 86)
#define WGMMA_HELD_168 WGMMA_HELD_160, WGMMA_FOUR(80)
#define WGMMA_SUMS_176 WGMMA_SUMS_168 ", %84, %85, %86, %87"
#define WGMMA_REST_176(f) f(88, 89, 90)
#define WGMMA_HELD_176 WGMMA_HELD_168, WGMMA_FOUR(84)
#define WGMMA_SUMS_184 WGMMA_SUMS_176 ", %88, %89, %90, %91"
#define WGMMA_REST_184(f) f(92, 93, 94)
#define WGMMA_HELD_184 WGMMA_HELD_176, WGMMA_FOUR(88)
#define WGMMA_SUMS_192 WGMMA_SUMS_184 ", %92, %93, %94, %95"
#define WGMMA_REST_192(f) f(96, 97, 98)
#define WGMMA_HELD_192 WGMMA_HELD_184, WGMMA_FOUR(92)
#define WGMMA_SUMS_200 WGMMA_SUMS_192 ", %96, %97, %98, %99"
#define WGMMA_REST_200(f) f(100, 101, 102)
#define WGMMA_HELD_200 WGMMA_HELD_192, WGMMA_FOUR(96)
#define WGMMA_SUMS_208 WGMMA_SUMS_200 ", %100, %101, %102, %103"
#define WGMMA_REST_208(f) f(104, 105, 106)
#define WGMMA_HELD_208 WGMMA_HELD_200, WGMMA_FOUR(100)
#define WGMMA_SUMS_216 WGMMA_SUMS_208 ", %104, %105, %106, %107"
#define WGMMA_REST_216(f) f(108, 109, 110)
#define WGMMA_HELD_216 WGMMA_HELD_208, WGMMA_FOUR(104)
#define WGMMA_SUMS_224 WGMMA_SUMS_216 ", %108, %109, %110, %111"
#define WGMMA_REST_224(f) f(112, 113, 114)
#define WGMMA_HELD_224 WGMMA_HELD_216, WGMMA_FOUR(108)
#define WGMMA_SUMS_232 WGMMA_SUMS_224 ", %112, %113, %114, %115"
#define WGMMA_REST_232(f) f(116, 117, 118)
#define WGMMA_HELD_232 WGMMA_HELD_224, WGMMA_FOUR(112)
#define WGMMA_SUMS_240 WGMMA_SUMS_232 ", %116, %117, %118, %119"
#define WGMMA_REST_240(f) f(120, 121, 122)
#define WGMMA_HELD_240 WGMMA_HELD_232, WGMMA_FOUR(116)
#define WGMMA_SUMS_248 WGMMA_SUMS_240 ", %120, %121, %122, %123"
#define WGMMA_REST_248(f) f(124, 125, 126)
#define WGMMA_HELD_248 WGMMA_HELD_240, WGMMA_FOUR(120)
#define WGMMA_SUMS_256 WGMMA_SUMS_248 ", %124, %125, %126, %127"
#define WGMMA_REST_256(f) f(128, 129, 130)
#define WGMMA_HELD_256 WGMMA_HELD_248, WGMMA_FOUR(124)


// d = X Y + (add ? d : 0), in the background, for WGMMA_N columns and operands of type IN, by their descriptors.
// WGMMA_ALONG_X, WGMMA_ALONG_Y: 1 where X lies along M, Y along N, instead of along K.
#define WGMMA_BODY(x, y, add)                                                                                        \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %" #add ", 0;\nwgmma.mma_async.sync.aligned.m64n" WGMMA_TEXT(WGMMA_N)            \
  WGMMA_PASTE(WGMMA_NAME_, IN) " {" WGMMA_PASTE(WGMMA_SUMS_, WGMMA_N) "}, %" #x ", %" #y ", p, 1, 1"                 \
  WGMMA_EXPAND(WGMMA_PASTE(WGMMA_ALONG_, IN), WGMMA_ALONG_X, WGMMA_ALONG_Y) ";\n}"
#define WGMMA_EXPAND(f, x, y) f(x, y)

__device__ __forceinline__ void wgmma(float (&d)[WGMMA_N / 2], unsigned long long x, unsigned long long y, int add) {
  asm volatile(WGMMA_PASTE(WGMMA_REST_, WGMMA_N)(WGMMA_BODY) : WGMMA_PASTE(WGMMA_HELD_, WGMMA_N) : "l"(x), "l"(y), "r"(add));
}

// Before the first of a run of wgmma: registers that others wrote are seen.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all groups but the last PENDING are done.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// How a tile lies in shared memory, but for its address (`wgmma_address`, to be added): rows of ROW bytes (32, 64 or 128)
// swizzled among themselves eight by eight; `leading`: bytes from one column of such rows to the next, where the tile lies along
// M or N and is wider than a row.
template <int ROW>
__device__ constexpr unsigned long long wgmma_descriptor(unsigned leading) {
  constexpr unsigned long long swizzle = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
  return swizzle << 62 | (unsigned long long)(8 * ROW / 16) << 32 | (unsigned long long)(leading / 16 & 0x3fff) << 16;
}
// An address in shared memory as descriptors have it, without the bits that say in which block of the cluster it lies.
__device__ __forceinline__ unsigned wgmma_address(unsigned shared) { return (shared & 0x3ffff) >> 4; }
