#include "longbow/ops/block_softmax_formula.h"

#include <ATen/ATen.h>

#include "longbow/ops/philox.h"

namespace longbow {
namespace {

using at::Tensor;

// Tokens [B, H, N, D] in blocks, of which the last is filled up with zeros: [B, H, U, block, D].
Tensor in_blocks(const Tensor& x, int64_t block) {
  const int64_t n = x.size(2), missing = (block - n % block) % block;
  return at::constant_pad_nd(x, {0, 0, 0, missing}).unflatten(2, {-1, block});
}
Tensor together(const Tensor& x, int64_t tokens) {
  return x.flatten(2, 3).narrow(2, 0, tokens);
}

// The listed blocks of keys beside each other, and back.
struct Listed {
  int64_t block;
  Tensor columns;  // [b, h, U, S], no negative ones

  // For tensors with b' batches and h' heads: [b' h' U S], rows of [b' h' blocks, ...].
  Tensor rows(int64_t batch, int64_t heads, int64_t blocks) const {
    const auto all = columns.expand({batch, heads, -1, -1});
    return (all + at::arange(batch * heads, columns.options()).view({batch, heads, 1, 1}) * blocks)
        .flatten();
  }
  // [b', h', M, D] -> [b', h', U, S block, D]; b' and h' are 1 or those of the columns, or the
  // columns have 1.
  Tensor gathered(const Tensor& x) const {
    const auto common = [&](int64_t d) { return x.size(d) == 1 ? columns.size(d) : x.size(d); };
    const int64_t b = common(0), h = common(1);
    const auto blocks = in_blocks(x.expand({b, h, -1, -1}), block);
    return blocks.flatten(0, 2)
        .index_select(0, rows(b, h, blocks.size(2)))
        .view({b, h, columns.size(2), columns.size(3) * block, x.size(3)});
  }
  // The sum of gathered rows by where they came from, for x of these sizes: [B, H, M, D].
  Tensor scattered(const Tensor& rows_of_tiles, at::IntArrayRef sizes) const {
    const int64_t b = sizes[0], h = sizes[1], m = sizes[2], d = sizes[3];
    const int64_t blocks = (m + block - 1) / block;
    return at::zeros({b * h * blocks, block, d}, rows_of_tiles.options())
        .index_add_(0, rows(b, h, blocks), rows_of_tiles.reshape({-1, block, d}))
        .view({b, h, blocks * block, d})
        .narrow(2, 0, m);
  }
};

struct Plan : BlockRule {
  explicit Plan(const BlockRule& rule) : BlockRule(rule) {}

  Listed listed() const { return {pairs.key_block, pairs.columns.clamp_min(0)}; }
  // [.., N] or [.., M] as [.., U, query_block, 1] and [.., U, 1, S key_block].
  Tensor of_queries(const Tensor& x) const { return in_blocks(x.unsqueeze(-1), pairs.query_block); }
  Tensor of_keys(const Tensor& x) const {
    return listed().gathered(x.unsqueeze(-1)).transpose(-2, -1);
  }
  Tensor numbered(int64_t tokens) const {
    return at::arange(tokens, pairs.columns.options()).view({1, 1, tokens});
  }

  // Where the listed keys stand: [.., U, S key_block], negative or behind the last one for none.
  Tensor index() const {
    const auto offset = at::arange(pairs.key_block, pairs.columns.options());
    return (pairs.columns.unsqueeze(-1) * pairs.key_block + offset).flatten(-2);
  }
  // c_i, [1, 1, U, query_block, 1].
  Tensor left(int64_t n) const {
    const auto& memory = visibility.memory;
    const auto i = of_queries(numbered(n));
    const auto begin = memory.segment > 0
                           ? i.floor_divide(memory.segment) * memory.segment - memory.tokens
                           : i - (memory.tokens - 1);
    return begin.floor_divide(memory.rate).clamp_min(0);
  }
  // The positions of keys, [.., U, 1 or query_block, S key_block].
  Tensor key_places(int64_t n) const {
    const auto& given = visibility.key_positions;
    const auto& memory = visibility.memory;
    const auto place = given.defined() ? of_keys(given) : index().unsqueeze(-2);
    if (memory.tokens == 0 || memory.slots == 0) return place;
    const auto slot = place - memory.first_slot;
    return at::where(slot < 0, place, slot + left(n) * (memory.rate - 1));
  }
  // How far queries are behind keys: i - j, [b, h, U, query_block, S key_block].
  Tensor behind(int64_t n) const {
    const auto& given = visibility.query_positions;
    return of_queries(given.defined() ? given : numbered(n)) - key_places(n);
  }
  // The column of each pair in a bias by distance.
  Tensor labels(int64_t n) const {
    return behind(n).neg().clamp(distances.low, distances.high) - distances.low;
  }
  // What is added to the scores [B, H, U, query_block, S key_block]; undefined where nothing is.
  Tensor added(const Tensor& bias, at::IntArrayRef scores, int64_t n) const {
    if (!bias.defined() || distances.count() <= 0) return bias;
    const auto rows = in_blocks(bias, pairs.query_block);
    return rows.expand({scores[0], scores[1], -1, -1, -1}).gather(4, labels(n).expand(scores));
  }
  // And back, from its gradient.
  Tensor bias_gradient(const Tensor& ds, const Tensor& bias, int64_t n) const {
    if (distances.count() <= 0) return ds.sum_to_size(bias.sizes()).to(bias.scalar_type());
    auto sizes = ds.sizes().vec();
    sizes[4] = distances.count();
    const auto rows = at::zeros(sizes, ds.options()).scatter_add_(4, labels(n).expand_as(ds), ds);
    return together(rows, n).sum_to_size(bias.sizes()).to(bias.scalar_type());
  }

  // What the memory shows, [.., U, query_block, S key_block] bool.
  Tensor remembered(int64_t n) const {
    const auto& memory = visibility.memory;
    const auto place = key_places(n), oldest = left(n) * memory.rate;
    const auto token = (place >= oldest).logical_and(place <= of_queries(numbered(n)));
    if (memory.slots == 0) return token;
    const auto slot = (place < oldest).logical_and(place >= oldest - memory.slots);
    return at::where(index().unsqueeze(-2) < memory.first_slot, token, slot);
  }
  // [b, h, U, query_block or 1, S key_block] bool.
  Tensor visible(int64_t n, int64_t m) const {
    const auto& rule = visibility;
    const auto place = index();
    auto seen = (place >= 0).logical_and(place < m).unsqueeze(-2);  // [b, h, U, 1, S key_block]
    if (rule.keep.defined()) seen = seen.logical_and(of_keys(rule.keep));
    if (rule.query_groups.defined())
      seen = seen.logical_and(of_queries(rule.query_groups) == of_keys(rule.key_groups));
    if (rule.memory.tokens > 0) return seen.logical_and(remembered(n));
    if (rule.back == Visibility::kAll && rule.ahead == Visibility::kAll && rule.apart <= 0)
      return seen;
    const auto distance = behind(n);
    if (rule.back != Visibility::kAll) {
      const auto near = distance <= rule.back;
      seen = seen.logical_and(rule.first > 0 ? near.logical_or(key_places(n) < rule.first) : near);
    }
    if (rule.ahead != Visibility::kAll) seen = seen.logical_and(distance >= -rule.ahead);
    return rule.apart > 0 ? seen.logical_and(distance.abs() >= rule.apart) : seen;
  }
  Tensor scaled(const Tensor& x) const { return scale == 1 ? x : x * scale; }
  // Of visible pairs; -infinity for others. [B, H, U, query_block, S key_block].
  Tensor scores(const Tensor& queries, const Tensor& keys, const Tensor& bias, int64_t n,
                int64_t m) const {
    const auto type = queries.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    auto s = scaled(queries.matmul(keys.transpose(-2, -1)).to(type));
    if (const auto more = added(bias, s.sizes(), n); more.defined()) s = s + more;
    if (visibility.key_bias.defined()) s = s + of_keys(visibility.key_bias).to(type);
    return s.masked_fill_(visible(n, m).logical_not(), -std::numeric_limits<double>::infinity());
  }
  // 1 / (1 - rate) where a weight stays, 0 where not; undefined when none is dropped.
  Tensor kept(const Tensor& weights) const {
    if (dropped.rate == 0) return {};
    return philox_uniform(dropped.key, dropped.site, weights.sizes())
        .ge(dropped.rate)
        .to(weights.scalar_type())
        .mul_(1 / (1 - dropped.rate));
  }
};

// Weights relative to their sum; of rows that see nothing all are zero.
Tensor weights_of(const Tensor& scores, const Tensor& log_sum) {
  return (scores - log_sum.masked_fill(log_sum.isneginf(), 0)).exp_();
}

}  // namespace

std::tuple<Tensor, Tensor> block_softmax_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const Tensor& bias, const BlockRule& rule) {
  const Plan plan(rule);
  const int64_t n = q.size(2);
  const auto listed = plan.listed();
  const auto s =
      plan.scores(in_blocks(q, plan.pairs.query_block), listed.gathered(k), bias, n, k.size(2));
  const auto sums = s.logsumexp(-1, true);
  auto weights = weights_of(s, sums);
  if (const auto kept = plan.kept(weights); kept.defined()) weights = weights * kept;
  const auto out = together(weights.to(v.scalar_type()).matmul(listed.gathered(v)), n);
  return {out, together(sums, n).squeeze(-1)};
}

// With w the weights and g = d out: dv = w^T g, ds = w (g v^T - sum_j w g v^T + d log_sum).
std::tuple<Tensor, Tensor, Tensor, Tensor> block_softmax_formula_backward(
    const BlockSoftmaxPast& past, const BlockRule& rule) {
  const Plan plan(rule);
  const auto &q = past.q, &k = past.k, &v = past.v, &bias = past.bias;
  const int64_t block = plan.pairs.query_block, n = q.size(2);
  const auto listed = plan.listed();
  const auto rows = [&](const Tensor& x) { return in_blocks(x.unsqueeze(-1), block); };
  const auto queries = in_blocks(q, block), keys = listed.gathered(k),
             g = in_blocks(past.dout, block);
  const auto weights =
      weights_of(plan.scores(queries, keys, bias, n, k.size(2)), rows(past.log_sum));
  const auto type = weights.scalar_type();
  const auto kept = plan.kept(weights);
  const auto dv =
      (kept.defined() ? weights * kept : weights).to(v.scalar_type()).transpose(-2, -1).matmul(g);
  auto dweights = g.matmul(listed.gathered(v).transpose(-2, -1)).to(type);
  if (kept.defined()) dweights = dweights * kept;
  auto shift = -(dweights * weights).sum(-1, true);
  if (past.dlog_sum.defined()) shift = shift + rows(past.dlog_sum);
  const auto wide_ds = weights * (dweights + shift);
  const auto ds = wide_ds.to(q.scalar_type());
  const auto dk = plan.scaled(ds.transpose(-2, -1).matmul(queries));
  return {together(plan.scaled(ds.matmul(keys)), n),
          listed.scattered(dk.to(type), k.sizes()).to(k.scalar_type()),
          listed.scattered(dv.to(type), v.sizes()).to(v.scalar_type()),
          past.wants_bias ? plan.bias_gradient(wide_ds, bias, n) : Tensor()};
}

}  // namespace longbow
