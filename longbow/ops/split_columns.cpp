#include "longbow/ops/split_columns.h"

#include <ATen/ATen.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

// Whether each part begins where the one before it ends, in every row.
bool lie_beside(const TensorVector& parts) {
  const auto& first = parts.front();
  int64_t place = first.storage_offset();
  for (const auto& part : parts) {
    if (!part.is_alias_of(first) || part.strides() != first.strides() || part.stride(-1) != 1 ||
        part.storage_offset() != place)
      return false;
    place += part.size(-1);
  }
  return true;
}

struct Gradient : Differentiable {
  explicit Gradient(at::IntArrayRef given) : widths(given.vec()) {}
  const std::vector<int64_t> widths;

  TensorVector forward(const TensorVector& inputs) override {
    return inputs[0].split_with_sizes(widths, -1);
  }
  TensorVector backward(const TensorVector& parts) override {
    if (at::GradMode::is_enabled() || !lie_beside(parts)) return {at::cat(parts, -1)};
    auto sizes = parts[0].sizes().vec();
    for (size_t i = 1; i < parts.size(); ++i) sizes.back() += parts[i].size(-1);
    return {parts[0].as_strided(sizes, parts[0].strides())};
  }
};

}  // namespace

std::vector<Tensor> split_columns(const Tensor& x, at::IntArrayRef widths) {
  if (!wants_gradient(x)) return x.split_with_sizes(widths, -1);
  return applied<Gradient>({x}, widths);
}

}  // namespace longbow
