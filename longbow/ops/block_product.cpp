#include "longbow/ops/block_product.h"

#include <ATen/ATen.h>

#include "longbow/ops/tile_attention.h"

namespace longbow {

using at::Tensor;

Tensor block_product(const Tensor& q, const Tensor& k, const Tensor& v, const BlockPairs& pairs,
                     const Visibility& visibility) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                  k.size(2) == v.size(2) && has_tile_kernel(q, k, v),
              "block_product: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), " on ",
              q.device());
  const BlockRule rule = {.pairs = pairs, .visibility = visibility, .dropped = {}};
  check_block_rule("block_product", q, k, rule);
  return attend_tiles(q, k, v, rule, TileWeights::score);
}

}  // namespace longbow
