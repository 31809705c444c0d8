#include "longbow/nn/softmax/partial_softmax.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/nn/contract/context.h"

namespace longbow {
namespace {

// The least finite number where nothing is visible, so that exp(-inf - top) = 0.
Tensor finite_top(const Tensor& largest) {
  const double least = largest.scalar_type() == at::kDouble ? std::numeric_limits<double>::lowest()
                                                            : std::numeric_limits<float>::lowest();
  return largest.detach().clamp_min(least);
}

}  // namespace

PartialSoftmax PartialSoftmax::over(const Tensor& scores, const Tensor& visible, const Tensor& v) {
  const auto type = wide(scores);
  const auto seen =
      scores.to(type).masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  const auto largest = finite_top(seen.amax(-1, true));
  const auto weights = (seen - largest).exp();
  return {largest, weights.sum(-1, true), weights.matmul(v.to(type))};
}

PartialSoftmax PartialSoftmax::of(const Tensor& out, const Tensor& log_sum) {
  const auto logarithm = log_sum.to(wide(log_sum)).unsqueeze(-1);
  const auto top = finite_top(logarithm);
  const auto total = (logarithm - top).exp();  // 1, or 0 where no key was visible
  return {top, total, out.to(total.scalar_type()) * total};
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
