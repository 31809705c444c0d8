#pragma once
// What kernels ask of a GPU beyond the words of CUDA C++: launches, memory that the blocks of a
// launch are given, and instructions of sm_80 and later. The tests have another header of this name
// for machines without a GPU (tests/emulation).
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace longbow::kernels {

// Memory that the threads of a block share: as many bytes as `launch` was given.
__device__ inline unsigned char* dynamic_memory() {
  extern __shared__ __align__(16) unsigned char shared[];
  return shared;
}

// The same number, but unknown to the compiler: what follows from it is not formed before a loop
// and kept in registers that the loop needs.
__device__ inline int recomputed(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

inline int most_dynamic_memory() {
  int device = 0, bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, size_t bytes, void* stream,
            const Arguments&... arguments) {
  if (bytes > 0)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  kernel<<<blocks, threads, bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
}

namespace mma {

// What a thread holds of the tiles of a product; mma.h says which numbers those are.
struct A {
  uint32_t part[4];
};
struct B {
  uint32_t part[2];
};
struct C {
  float part[4];
};

__device__ inline uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// Four 8 x 8 matrices; `line(i)` is where line i % 8 of matrix i / 8 begins. A thread receives the
// numbers 2t and 2t + 1 of line g of each or, transposed, the numbers g of the lines 2t and 2t + 1.
template <bool transposed, class F>
__device__ inline void load_matrices(uint32_t (&to)[4], const F& line) {
  const uint32_t from = shared_address(line(static_cast<int>(threadIdx.x) % 32));
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

// C += A B for tiles A [16, 8] and B [8, 8] of TF32: float32 of which the lower 13 bits are not
// read. A holds (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), B (t, g), (t + 4, g).
__device__ inline void multiply_tf32(C& c, const A& a, const B& b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c.part[0]), "+f"(c.part[1]), "+f"(c.part[2]), "+f"(c.part[3])
      : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b.part[0]),
        "r"(b.part[1]));
}

// 2^x; 0 for -infinity and where the result would be denormal.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x; 0 for infinity and where the result would be denormal.
__device__ inline float inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// 16 bytes from global to shared memory without waiting; zeros where they are not `there`, and then
// nothing is read.
__device__ inline void copy_async(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
// The same for 4 bytes.
__device__ inline void copy_word_async(void* to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)),
               "l"(from), "r"(there ? 4 : 0)
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

}  // namespace mma
}  // namespace longbow::kernels
#endif
