#pragma once
// In place of the header of the same name in longbow/kernels/cuda, where there is no GPU.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/emulation/matrices.h"

namespace longbow::kernels {

using emulation::dynamic_memory;

inline int recomputed(int x) {
  return x;
}

inline int most_dynamic_memory() {
  return static_cast<int>(emulation::most_memory());
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, size_t bytes, void*,
            const Arguments&... arguments) {
  emulation::run(blocks, threads, bytes, [&] { kernel(arguments...); });
}

namespace mma {

struct A {
  uint32_t part[4];
};
struct B {
  uint32_t part[2];
};
struct C {
  float part[4];
};

// A thread reads its own numbers; that all lanes name one place is checked at the next product.
template <bool transposed, class F>
void load_matrices(uint32_t (&to)[4], const F& line) {
  const int lane = emulation::thread->lane, g = lane / 4, t = lane % 4;
  emulation::name(line(0));
  for (int i = 0; i < 4; ++i) {
    const auto number = [&](int row, int column) {
      return uint32_t{reinterpret_cast<const uint16_t*>(line(8 * i + row))[column]};
    };
    to[i] = transposed ? number(2 * t, g) | number(2 * t + 1, g) << 16
                       : number(g, 2 * t) | number(g, 2 * t + 1) << 16;
  }
}

template <class T>
void multiply(C& c, const A& a, const B& b) {
  const emulation::Factors factors = {a.part, b.part, c.part};
  constexpr auto instruction =
      std::is_same_v<T, __half> ? emulation::multiply_half : emulation::multiply_bfloat16;
  emulation::execute(0xffffffffu, &factors, nullptr, instruction);
}

inline void multiply_tf32(C& c, const A& a, const B& b) {
  const emulation::Factors factors = {a.part, b.part, c.part};
  emulation::execute(0xffffffffu, &factors, nullptr, emulation::multiply_tf32);
}

inline float power_of_two(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;
}

inline float inverse(float x) {
  const float y = 1 / x;
  return std::fabs(y) < 0x1p-126f ? 0 : y;
}

inline void copy_async(void* to, const void* from, bool there) {
  emulation::copy_later(to, from, there, 16);
}
inline void copy_word_async(void* to, const void* from, bool there) {
  emulation::copy_later(to, from, there, 4);
}
inline void commit_copies() {
  emulation::end_group();
}
template <int pending>
void await_copies() {
  emulation::await_groups(pending);
}

}  // namespace mma
}  // namespace longbow::kernels
