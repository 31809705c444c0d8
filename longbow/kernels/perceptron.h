#pragma once
// One hidden layer, y = W2 m f(W1 x + b1) + b2 with m what dropout leaves: a mixture of its units,
// the keys of which are W1, the values W2^T and the offset b2. ops/perceptron.h defines it.
#include "longbow/kernels/feed_forward.h"
#include "longbow/kernels/slot_mixture.h"

namespace longbow::kernels {

// Curves are gelu and relu.
void perceptron_cuda(Curve curve, const SlotMixture& task, void* stream) noexcept;
void perceptron_backward_cuda(Curve curve, const SlotMixtureBackward& task, void* stream) noexcept;

// Units that are read together: all, or as many as the kernels are best at; 0 where neither fits.
constexpr int64_t perceptron_group(int64_t units) {
  constexpr int64_t kBest = 128;
  return units <= kBest ? units : units % kBest == 0 ? kBest : 0;
}

}  // namespace longbow::kernels
