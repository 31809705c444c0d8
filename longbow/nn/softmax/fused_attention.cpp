#include <ATen/ATen.h>

#include "longbow/nn/softmax/softmax.h"
#include "longbow/nn/softmax/tiles.h"
#include "longbow/ops/block_softmax.h"
#include "longbow/ops/pack_softmax.h"
#include "longbow/ops/slot_softmax.h"
#include "longbow/ops/tile_attention.h"

namespace longbow {
namespace {

Tensor sdpa(const Heads& heads, bool causal, double scale) {
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, {}, 0.0, causal, scale);
}

// LibTorch aligns a causal mask at the start; queries added in front turn that into our alignment
// at the end. Real tokens come first in every row, so a causal query that is real never meets a
// padded key of its own row.
Tensor fused_causal(const Heads& heads, double scale) {
  const int64_t queries = heads.q.size(2), keys = heads.k.size(2);
  if (queries == keys) return sdpa(heads, true, scale);
  Heads square = heads;
  if (queries < keys) {
    square.q = at::constant_pad_nd(heads.q, {0, 0, keys - queries, 0});
    return sdpa(square, true, scale).narrow(2, keys - queries, queries);
  }
  square.q = heads.q.narrow(2, queries - keys, keys);
  return at::constant_pad_nd(sdpa(square, true, scale), {0, 0, queries - keys, 0});
}

// A row without any key is computed on all of them and then set to zero, because the kernels divide
// by its sum.
Tensor fused_read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                  double scale) {
  if (!visible.defined()) return at::scaled_dot_product_attention(q, k, v, {}, 0.0, false, scale);
  const auto any = visible.any(-1, true);
  const auto y = at::scaled_dot_product_attention(q, k, v, visible.logical_or(any.logical_not()),
                                                  0.0, false, scale);
  return y * any.to(y.scalar_type());
}

// Whether queries and keys are few, as in the lines of a grid, and LibTorch's kernels, or those in
// which one side passes by the other, would do little at a time.
bool reads_tile(const Heads& heads) {
  constexpr int64_t kFew = 64;
  return has_slot_kernel(heads.q, heads.k, heads.v) && heads.q.size(2) <= kFew &&
         heads.k.size(2) <= kFew;
}

// Whether our tiles are faster on a CPU: not for wide heads that see everything.
bool has_faster_tiles(const Heads& heads, const Mask& mask) {
  constexpr int64_t kWide = 64;
  return has_tile_kernel(heads.q, heads.k, heads.v) && has_tile_products(heads.q) &&
         heads.q.size(2) >= kEnoughQueries && heads.k.size(2) > 0 &&
         (mask.causal || heads.q.size(3) <= kWide);
}

}  // namespace

Tensor fused_attention(const Heads& heads, const Mask& mask, double scale, FusedKernels kernels) {
  const bool itself = heads.x.is_same(heads.source);
  if (kernels == FusedKernels::fastest && has_faster_tiles(heads, mask))
    return tiled_softmax(heads.q, heads.k, heads.v, Seen::by(mask), {}, {}, {}, scale);
  if (mask.causal && (itself || !mask.keep.defined())) return fused_causal(heads, scale);
  if (mask.causal)  // and keep: the kernels take either rule, or a stored N x M mask
    return tiled_softmax(heads.q, heads.k, heads.v, Seen::by(mask), {}, {}, {}, scale)
        .to(heads.v.scalar_type());
  if (reads_tile(heads))
    return block_softmax(heads.q, heads.k, heads.v,
                         one_block(heads.q.size(2), heads.k.size(2), heads.q.device()),
                         {.keep = mask.keep.defined() ? mask.keep.unsqueeze(1) : mask.keep}, {}, {},
                         {}, scale)
        .out;
  if (has_slot_kernel(heads.q, heads.k, heads.v))
    return slot_softmax(heads.q, heads.k * scale, heads.v,
                        mask.keep.defined() ? mask.keep.unsqueeze(1) : mask.keep);
  if (has_pack_kernel(heads.q, heads.k, heads.v))
    return pack_softmax(heads.q * scale, heads.k, heads.v, mask.keep);
  return fused_read(heads.q, heads.k, heads.v, visible_keys(mask.keep), scale);
}

}  // namespace longbow
