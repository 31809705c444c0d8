#include "longbow/attention/h1d/sibling_blocks.h"

#include <ATen/ATen.h>

#include <limits>

namespace longbow {
namespace {

// [B, H, n, D] each; real [B, 1, n, 1] of 0 and 1, or undefined where nothing is padded.
struct Level {
  Tensor q, k, v, real;
};
struct Sums {
  Tensor values, weights;  // [B, H, n, D], [B, H, n, 1]
};

Tensor in_pairs(const Tensor& x) {
  return x.unflatten(2, {x.size(2) / 2, 2});
}

// The mean of two children, or of the real one; values are added.
Level coarser(const Level& level) {
  const auto& real = level.real;
  const auto values = in_pairs(level.v).sum(3);
  if (!real.defined()) return {in_pairs(level.q).mean(3), in_pairs(level.k).mean(3), values, real};
  const auto count = in_pairs(real).sum(3);
  const auto mean = [&](const Tensor& x) { return in_pairs(x * real).sum(3) / count.clamp_min(1); };
  return {mean(level.q), mean(level.k), values, count.clamp_max(1)};
}

// Blocks of W rows read blocks of W keys, [B, H, K, W, D]. A row that sees nothing weighs all of
// its keys as one.
Sums read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  auto scores = q.matmul(k.transpose(-2, -1));
  if (visible.defined())
    scores = scores.masked_fill(visible.logical_not(), std::numeric_limits<float>::lowest());
  const auto weights = (scores - scores.amax(-1, true)).exp();
  return {weights.matmul(v).flatten(2, 3), weights.sum(-1, true).flatten(2, 3)};
}

Sums read_itself(const Level& level, int64_t block, bool causal) {
  const auto blocked = [&](const Tensor& x) { return x.unflatten(2, {-1, block}); };
  Tensor visible;
  if (level.real.defined()) visible = blocked(level.real).transpose(-2, -1) > 0;
  if (causal) {
    const auto past = at::ones({block, block}, level.q.options().dtype(at::kBool)).tril();
    visible = visible.defined() ? visible.logical_and(past) : past;
  }
  return read(blocked(level.q), blocked(level.k), blocked(level.v), visible);
}

Sums read_sibling(const Level& level, int64_t block) {
  const auto blocked = [&](const Tensor& x) { return x.unflatten(2, {-1, block}); };
  const auto exchanged = [&](const Tensor& x) {
    return in_pairs(blocked(x)).flip(3).flatten(2, 3);
  };
  Tensor visible;
  if (level.real.defined()) visible = exchanged(level.real).transpose(-2, -1) > 0;
  return read(blocked(level.q), exchanged(level.k), exchanged(level.v), visible);
}

// [n, 1]: the last token of a cluster, in the second block of a pair.
Tensor may_look_back(int64_t length, int64_t block, int64_t size, const at::TensorOptions& like) {
  const auto token = at::arange(length, like.dtype(at::kLong));
  return ((token + 1).remainder(size) == 0)
      .logical_and(token.floor_divide(size * block).remainder(2) == 1)
      .to(like.dtype())
      .unsqueeze(-1);
}

}  // namespace

Tensor sibling_attention(const Heads& heads, const Mask& mask, int64_t block, double epsilon) {
  const bool causal = mask.causal;
  const int64_t n = heads.q.size(2);
  int64_t length = block, levels = causal ? 0 : -1;
  for (; length < n; length *= 2) ++levels;
  const auto filled = [&](const Tensor& x) {
    return at::constant_pad_nd(x.to(wide(heads.q)), {0, 0, 0, length - n});
  };
  Level level = {filled(heads.q), filled(heads.k), filled(heads.v), {}};
  if (mask.keep.defined() || n < length) {
    const auto keep = mask.keep.defined() ? mask.keep : at::ones({1, n}, heads.q.options());
    level.real = filled(keep.unsqueeze(1).unsqueeze(-1));
    level.v = level.v * level.real;
  }
  auto sums = read_itself(level, block, causal);
  for (int64_t l = 0, size = 1; l < levels; ++l, size *= 2) {
    if (l > 0) level = coarser(level);
    if (l == 0 && causal) continue;
    const auto part = read_sibling(level, block);
    const auto add = [&](Tensor& sum, const Tensor& rows) {
      const auto spread = rows.repeat_interleave(size, 2);
      sum = sum + (causal ? spread * may_look_back(length, block, size, rows.options()) : spread);
    };
    add(sums.values, part.values);
    add(sums.weights, part.weights);
  }
  return (sums.values / (sums.weights + epsilon)).narrow(2, 0, n).to(heads.v.scalar_type());
}

}  // namespace longbow
