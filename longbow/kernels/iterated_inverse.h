#pragma once
// The iteration for the pseudo-inverse of small matrices, one on a CPU or many on a GPU;
// ops/iterated_inverse.h defines it.
#include <cstdint>

namespace longbow::kernels {

// All matrices are [order, order] without gaps.
template <class T>
struct IteratedInverse {
  int64_t order, steps;
  const T* a;
  T* states;  // of step s at s * stride: Z before it, the first of which is given
  int64_t stride;
  T* out;  // Z after the last
};
template <class T>
struct IteratedInverseBackward {
  IteratedInverse<T> past;  // without `out`
  const T* dout;
  T *da, *dz;  // of a, and of the first Z
};

template <class T>
void iterated_inverse(const IteratedInverse<T>& task) noexcept;
template <class T>
void iterated_inverse_backward(const IteratedInverseBackward<T>& task) noexcept;

// Of `matrices` that follow each other, of at most this order.
constexpr int kMostInverseOrder = 64;
void iterated_inverse_cuda(const IteratedInverse<float>& task, int64_t matrices,
                           void* stream) noexcept;
void iterated_inverse_backward_cuda(const IteratedInverseBackward<float>& task, int64_t matrices,
                                    void* stream) noexcept;

}  // namespace longbow::kernels
