#include "longbow/ops/block_product.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/tile_attention.h"

namespace longbow {
namespace {

using at::Tensor;

struct Product : Differentiable {
  explicit Product(BlockRule which) : rule(std::move(which)) {}
  const BlockRule rule;

  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    return {
        std::get<0>(tile_attention(inputs[0], inputs[1], inputs[2], {}, rule, TileWeights::score))};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "block_product has no second derivative");
    const auto kept = saved();
    const auto [dq, dk, dv, none] = tile_attention_backward(
        {kept[0], kept[1], kept[2], {}, {}, {}, gradients[0], {}, false}, rule, TileWeights::score);
    return {dq, dk, dv};
  }
};

}  // namespace

Tensor block_product(const Tensor& q, const Tensor& k, const Tensor& v, const BlockPairs& pairs,
                     const Visibility& visibility) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                  k.size(2) == v.size(2) && has_tile_kernel(q, k, v),
              "block_product: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), " on ",
              q.device());
  return applied<Product>({q, k, v}, BlockRule{.pairs = pairs, .visibility = visibility})[0];
}

}  // namespace longbow
