#include "longbow/nn/softmax/exact_attention.h"

#include <ATen/ATen.h>

namespace longbow {

Tensor ExactAttention::attend(const Heads& heads, Context& context) {
  if (context.maps) return AllPairs::attend(heads, context);
  if (!drops()) return fused_attention(heads, context.mask, scale_);
  return tiled_softmax(heads.q, heads.k, heads.v, Seen::by(context.mask), {}, weighing(), context,
                       scale_)
      .to(heads.v.scalar_type());
}

Tensor ExactAttention::read(const Heads& heads, const Seen& seen, Context& context) {
  const auto scores = (heads.q * scale_).matmul(heads.k.transpose(-2, -1));
  return softmax_read(scores, heads.v, seen.pairs(heads), weighing(), context);
}

}  // namespace longbow
