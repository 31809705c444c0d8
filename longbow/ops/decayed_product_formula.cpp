#include "longbow/ops/decayed_product_formula.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "longbow/ops/chunk_decays.h"
#include "longbow/ops/linear_scan.h"

namespace longbow {
namespace {

using at::Tensor;

// The decays between a token and the last one: a sum from behind, without the token's own.
Tensor until_end(const Tensor& g) {
  const auto next = at::constant_pad_nd(g.narrow(-2, 1, g.size(-2) - 1), {0, 0, 0, 1});
  return next.flip(-2).cumsum(-2).flip(-2).exp();
}
// The decays from the first token to each, with its own.
Tensor since_start(const Tensor& g) {
  return g.cumsum(-2).exp();
}

// y^T z and x A with a factor on the side that fades.
Tensor written(const Tensor& y, const Tensor& z, const Tensor& factor, Fading fading) {
  return fading == Fading::rows ? (y * factor).transpose(-2, -1).matmul(z)
                                : y.transpose(-2, -1).matmul(z * factor);
}
Tensor read(const Tensor& x, const Tensor& sums, const Tensor& factor, Fading fading) {
  return fading == Fading::rows ? (x * factor).matmul(sums) : x.matmul(sums) * factor;
}

// Pairs i <= t of one chunk where blocks of columns fade alike: g [..., C, h] for z [..., C, h r].
Tensor inside_blocks(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g) {
  const auto kept = chunk_decays(g.transpose(-2, -1).unsqueeze(-1));        // [..., h, C, C]
  const auto scores = x.matmul(y.transpose(-2, -1)).unsqueeze(-3);          // [..., 1, C, C]
  const auto blocks = z.unflatten(-1, {g.size(-1), -1}).transpose(-3, -2);  // [..., h, C, r]
  return (scores * kept).matmul(blocks).transpose(-3, -2).flatten(-2);
}

// Pairs i <= t of one chunk, a power of two, where every row or column fades its own way: those of
// the second half with the first meet in the middle, so that both factors fade; the halves are done
// alike.
Tensor inside(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g, Fading fading) {
  auto out = (x * y).sum(-1, true) * z;
  for (int64_t half = 1; half < x.size(-2); half *= 2) {
    const auto part = [&](const Tensor& t, int64_t which) {
      return t.unflatten(-2, {-1, 2, half}).select(-3, which);
    };
    const auto before = until_end(part(g, 0)), after = since_start(part(g, 1));
    const auto first = part(y, 0), second = part(x, 1), rows = part(z, 0);
    const auto met = fading == Fading::rows
                         ? (second * after).matmul((first * before).transpose(-2, -1)).matmul(rows)
                         : second.matmul(first.transpose(-2, -1)).matmul(rows * before) * after;
    out = out + at::constant_pad_nd(met, {0, 0, half, 0}).flatten(-3, -2);
  }
  return out;
}

// From the first token to the last; all of one type.
Tensor forwards(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                Fading fading, Tensor& sums, int64_t chunk) {
  const int64_t length = x.size(-2), other = (fading == Fading::rows ? x : z).size(-1),
                decays = log_decay.size(-1);
  const bool by_block = decays == 1 || (fading == Fading::columns && other % decays == 0);
  chunk = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(length, 1, chunk))));
  const int64_t chunks = std::max<int64_t>(1, (length + chunk - 1) / chunk);
  const auto cut = [&](const Tensor& t) {  // [..., chunks, chunk, …]
    return at::constant_pad_nd(t, {0, 0, 0, chunks * chunk - length})
        .unflatten(-2, {chunks, chunk});
  };
  const auto a = cut(x), b = cut(y), c = cut(z), blocks = cut(log_decay);
  // One decay for each sum that fades, or one for all.
  const auto g =
      decays == 1 || decays == other ? blocks : blocks.repeat_interleave(other / decays, -1);
  const auto added = written(b, c, until_end(g), fading);  // [..., chunks, p, q]
  auto whole = g.sum(-2, true).exp();                      // [..., chunks, 1, p or q]
  if (fading == Fading::rows) whole = whole.transpose(-2, -1);
  if (!sums.defined()) sums = at::zeros_like(added.select(-3, 0));
  const auto states = decay_scan(whole, added, sums);  // [..., chunks + 1, p, q]
  sums = states.select(-3, chunks);
  const auto outside = read(a, states.narrow(-3, 0, chunks), since_start(g), fading);
  const auto within =
      by_block && decays < other ? inside_blocks(a, b, c, blocks) : inside(a, b, c, g, fading);
  return (within + outside).flatten(-3, -2).narrow(-2, 0, length);
}

}  // namespace

void check_decayed_product(const Tensor& x, const Tensor& y, const Tensor& z,
                           const Tensor& log_decay, Fading fading) {
  TORCH_CHECK(x.sizes() == y.sizes(), "decayed_product: x is ", x.sizes(), " but y is ", y.sizes());
  const int64_t length = x.size(-2), other = (fading == Fading::rows ? x : z).size(-1);
  TORCH_CHECK(z.size(-2) == length && log_decay.size(-2) == length, "decayed_product: x is ",
              x.sizes(), " but z is ", z.sizes(), " and log_decay ", log_decay.sizes());
  const int64_t decays = log_decay.size(-1);
  TORCH_CHECK(decays == 1 || decays == other ||
                  (fading == Fading::columns && decays > 0 && other % decays == 0),
              "decayed_product: ", other, " sums fade, but log_decay is ", log_decay.sizes());
}

Tensor decayed_product_formula(const Tensor& x, const Tensor& y, const Tensor& z,
                               const Tensor& log_decay, const DecayedProduct& how, Tensor& sums,
                               int64_t chunk) {
  TORCH_CHECK(chunk > 0 && std::has_single_bit(static_cast<uint64_t>(chunk)),
              "decayed_product: a chunk of ", chunk, " tokens, but needs a power of two");
  check_decayed_product(x, y, z, log_decay, how.fading);
  const auto given = [&](const Tensor& t) {
    const auto typed = t.to(log_decay.scalar_type());
    return how.reversed ? typed.flip(-2) : typed;
  };
  const auto queries = how.scale == 1 ? given(x) : given(x) * how.scale;
  const auto out = forwards(queries, given(y), given(z), given(log_decay), how.fading, sums, chunk)
                       .to(x.scalar_type());
  return how.reversed ? out.flip(-2) : out;
}

}  // namespace longbow
