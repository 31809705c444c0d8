#include "longbow/nn/softmax/partial_softmax.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/nn/contract/context.h"
#include "longbow/ops/join_softmax.h"

namespace longbow {

PartialSoftmax PartialSoftmax::over(const Tensor& scores, const Tensor& visible, const Tensor& v) {
  const auto type = wide(scores);
  const auto seen =
      scores.to(type).masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  return {at::_safe_softmax(seen, -1).matmul(v.to(type)), seen.logsumexp(-1, true)};
}

PartialSoftmax PartialSoftmax::operator+(const PartialSoftmax& other) const {
  const auto type = at::promote_types(mean.scalar_type(), other.mean.scalar_type());
  const auto joined = join_softmax({mean.to(type), log_sum}, {other.mean.to(type), other.log_sum});
  return {joined.out, joined.log_sum};
}

Tensor PartialSoftmax::saw() const {
  return log_sum.isneginf().logical_not();
}

}  // namespace longbow
