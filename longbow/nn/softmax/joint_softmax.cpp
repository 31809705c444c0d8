#include "longbow/nn/softmax/joint_softmax.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

Tensor read(const Tensor& weights, const Tensor& values) {
  const auto w = weights.to(values.scalar_type());
  if (w.dim() == values.dim()) return w.matmul(values);
  return w.flatten(2, 3).matmul(values).unflatten(2, {w.size(2), w.size(3)});
}

}  // namespace

Tensor joint_softmax(const std::vector<KeyFamily>& families, const Weighing& weighing,
                     Context& context) {
  std::vector<Tensor> scores, visible;
  std::vector<int64_t> sizes;
  for (const auto& family : families) {
    const auto& s = family.scores;
    auto shape = s.sizes().vec();
    shape[1] = 1;  // a mask is the same for all heads
    const auto all = at::ones({1}, s.options().dtype(at::kBool));
    scores.push_back(s);
    visible.push_back((family.visible.defined() ? family.visible : all).expand(shape));
    sizes.push_back(s.size(-1));
  }
  const auto weights = masked_softmax(at::cat(scores, -1), at::cat(visible, -1));
  if (context.maps) (*context.maps)[weighing.path] = weights.detach();
  const auto parts =
      dropout(weights, weighing.dropout, weighing.training, context, weighing.path + ".dropout")
          .split_with_sizes(sizes, -1);
  auto y = read(parts[0], families[0].values);
  for (size_t f = 1; f < families.size(); ++f) y = y + read(parts[f], families[f].values);
  return y;
}

}  // namespace longbow
