#pragma once
// Tensor cores from sm_80 on: C += A B for tiles A [16, 16], B [16, 8] of bfloat16 or float16 and C
// [16, 8] of float32, each held by the 32 threads of a warp. With g = lane / 4 and t = lane % 4 a
// thread holds
//   A (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with the number to its right;
//   B (2t, g), (2t + 8, g), each with the number below it;
//   C (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
// Tiles in shared memory begin at a multiple of 16 bytes, and so does each of their lines. Eight
// lines are read at once without bank conflicts if `stride`, from line to line in elements, is 8
// times an odd number: `padded` of a multiple of 16.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace longbow::kernels::mma {

struct A {
  uint32_t part[4];
};
struct B {
  uint32_t part[2];
};
struct C {
  float part[4];
};

__host__ __device__ constexpr int padded(int width) {
  return width + 8;
}

__device__ inline uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// Four 8 x 8 matrices; lane i names line i % 8 of matrix i / 8. A thread receives the numbers 2t
// and 2t + 1 of line g of each or, transposed, the numbers g of the lines 2t and 2t + 1.
template <bool transposed>
__device__ inline void load_matrices(uint32_t (&to)[4], const void* line) {
  const uint32_t from = shared_address(line);
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// A whose element (m, k) is tile[m stride + k].
template <class T>
__device__ inline A a_of_rows(const T* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  A a;
  load_matrices<false>(a.part, tile + (lane % 16) * stride + lane / 16 * 8);
  return a;
}
// A whose element (m, k) is tile[k stride + m].
template <class T>
__device__ inline A a_of_columns(const T* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  A a;
  load_matrices<true>(a.part, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  return a;
}

// Two tiles B beside each other, n < 8 and n >= 8.
struct TwoB {
  B tile[2];
};
__device__ inline TwoB two_of(const uint32_t (&part)[4]) {
  return {{{{part[0], part[1]}}, {{part[2], part[3]}}}};
}
// B whose element (k, n) is tile[k stride + n].
template <class T>
__device__ inline TwoB b_of_rows(const T* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t part[4];
  load_matrices<true>(part, tile + (lane % 16) * stride + lane / 16 * 8);
  return two_of(part);
}
// B whose element (k, n) is tile[n stride + k].
template <class T>
__device__ inline TwoB b_of_columns(const T* tile, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t part[4];
  load_matrices<false>(part, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  return two_of(part);
}

template <class T>
__device__ inline void multiply(C& c, const A& a, const B& b) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c.part[0]), "+f"(c.part[1]), "+f"(c.part[2]), "+f"(c.part[3])
        : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b.part[0]),
          "r"(b.part[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c.part[0]), "+f"(c.part[1]), "+f"(c.part[2]), "+f"(c.part[3])
        : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b.part[0]),
          "r"(b.part[1]));
}

// Two numbers rounded to the type, the first in the lower half.
template <class T>
__device__ inline uint32_t pack(float first, float second) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
  } else {
    const __half2 both = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
}
template <class T>
__device__ inline float2 unpack(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
  else
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}

// Two tiles C beside each other, [16, 16], as the left factor of another product.
template <class T>
__device__ inline A a_of(const C& left, const C& right) {
  return {{pack<T>(left.part[0], left.part[1]), pack<T>(left.part[2], left.part[3]),
           pack<T>(right.part[0], right.part[1]), pack<T>(right.part[2], right.part[3])}};
}

// 2^x; 0 for -infinity and where the result would be denormal.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// 16 bytes from global to shared memory without waiting; zeros where they are not `there`, and then
// nothing is read.
__device__ inline void copy_async(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// All but the last `pending` groups have arrived: those of this thread.
template <int pending>
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

}  // namespace longbow::kernels::mma
#endif
