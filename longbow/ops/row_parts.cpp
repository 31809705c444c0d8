#include "longbow/ops/row_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

// Whether `next` begins where `last`, which began with `first`, ends, in every row.
bool lies_beside(const Tensor& next, const Tensor& first, int64_t width) {
  return next.is_alias_of(first) && next.strides() == first.strides() && next.stride(-1) == 1 &&
         next.storage_offset() == first.storage_offset() + width;
}

struct Gradient : Differentiable {
  explicit Gradient(at::IntArrayRef given) : widths(given.vec()) {}
  const std::vector<int64_t> widths;

  TensorVector forward(const TensorVector& inputs) override {
    return inputs[0].split_with_sizes(widths, -1);
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto parts = at::GradMode::is_enabled() ? gradients : joined_parts(gradients);
    return {parts.size() == 1 ? parts[0] : at::cat(parts, -1)};
  }
};

}  // namespace

std::vector<Tensor> row_parts(const Tensor& x, at::IntArrayRef widths) {
  if (wants_gradient(x)) return applied<Gradient>({x}, widths);
  return x.split_with_sizes(widths, -1);
}

std::vector<Tensor> joined_parts(const std::vector<Tensor>& parts) {
  TensorVector runs;
  for (const auto& part : parts) {
    if (runs.empty() || !lies_beside(part, runs.back(), runs.back().size(-1))) {
      runs.push_back(part);
      continue;
    }
    auto sizes = part.sizes().vec();
    sizes.back() += runs.back().size(-1);
    runs.back() = runs.back().as_strided(sizes, part.strides());
  }
  return runs;
}

}  // namespace longbow
