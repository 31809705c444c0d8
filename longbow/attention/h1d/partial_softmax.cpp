#include "longbow/attention/h1d/partial_softmax.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/nn/contract/context.h"

namespace longbow {

PartialSoftmax PartialSoftmax::over(const Tensor& scores, const Tensor& visible, const Tensor& v) {
  const auto type = wide(scores);
  const auto seen =
      scores.to(type).masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  // The least finite number where nothing is visible, so that exp(-inf - top) = 0.
  const double least = type == at::kDouble ? std::numeric_limits<double>::lowest()
                                           : std::numeric_limits<float>::lowest();
  const auto largest = seen.detach().amax(-1, true).clamp_min(least);
  const auto weights = (seen - largest).exp();
  return {largest, weights.sum(-1, true), weights.matmul(v.to(type))};
}

PartialSoftmax PartialSoftmax::operator+(const PartialSoftmax& other) const {
  const auto most = at::maximum(top, other.top);
  const auto a = (top - most).exp(), b = (other.top - most).exp();
  return {most, a * total + b * other.total, a * sum + b * other.sum};
}

Tensor PartialSoftmax::mean() const {
  return sum / total.clamp_min(1);  // at least 1 where a key was visible: the largest one's weight
}

}  // namespace longbow
