#include "longbow/attention/h1d/clusters.h"

#include <ATen/ATen.h>

#include <numeric>

#include "longbow/ops/level_means.h"
#include "longbow/ops/level_starts.h"

namespace longbow {
namespace {

// How many real tokens each cluster has, level after level with zeros behind each: [B or 1, T].
Tensor counts(const Mask& mask, int64_t tokens, const std::vector<int64_t>& rows,
              const at::TensorOptions& options) {
  const auto total = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  if (mask.keep.defined())
    return level_means(mask.keep.to(options.dtype()).unsqueeze(1).unsqueeze(-1), {},
                       at::ones({1, total}, options), rows)
        .flatten(1);
  // All clusters of a level but the last one are full.
  const auto count = at::zeros({1, total}, options);
  int64_t first = 0, size = 1;
  for (const int64_t room : rows) {
    size *= 2;
    const int64_t full = tokens / size, rest = tokens % size;
    count.narrow(1, first, full).fill_(size);
    if (rest > 0) count.narrow(1, first + full, 1).fill_(rest);
    first += room;
  }
  return count;
}

}  // namespace

CoarseLevels coarse_levels(const Heads& heads, const Mask& mask, int64_t levels, int64_t block) {
  CoarseLevels coarse;
  const int64_t n = heads.k.size(2);
  for (int64_t l = 1, clusters = n; l < levels; ++l) {
    clusters = (clusters + 1) / 2;
    coarse.rows.push_back(((clusters + block - 1) / block + 1) * block);
  }
  coarse.count = counts(mask, n, coarse.rows, heads.k.options().dtype(wide(heads.k)));
  const auto share = coarse.count.clamp_min(1).reciprocal();
  const auto means = [&](const Tensor& x) { return level_means(x, mask.keep, share, coarse.rows); };
  coarse.q = mask.causal ? level_starts(heads.q, coarse.rows) : means(heads.q);
  coarse.k = means(heads.k);
  coarse.v = means(heads.v);
  return coarse;
}

void open_clusters(State& state, const Heads& empty, int64_t levels, int64_t slots) {
  const int64_t b = empty.k.size(0), h = empty.k.size(1), d = empty.k.size(3);
  const auto options = empty.k.options().dtype(wide(empty.k));
  state.add("keys", {b, h, levels, slots, d}, options);
  state.add("values", {b, h, levels, slots, d}, options);
  state.add("queries", {b, h, levels, 1, d}, options);
}

Clusters grow_clusters(const Heads& heads, State& state, const Context& context) {
  auto &keys = state.lane.at("keys"), &values = state.lane.at("values"),
       &queries = state.lane.at("queries");
  const int64_t b = keys.size(0), h = keys.size(1), levels = keys.size(2), slots = keys.size(3),
                d = keys.size(4), tokens = heads.q.size(2);
  const auto type = keys.scalar_type();
  const auto options = context.positions.options();
  const auto place = context.positions.expand({b, tokens}).unsqueeze(1);  // [B, 1, T]
  const auto size = at::bitwise_left_shift(at::ones({levels, 1}, options),
                                           at::arange(levels, options).view({-1, 1}));
  const auto own = place.floor_divide(size);  // [B, L, T]
  const auto& keep = context.mask.keep;
  const auto real = keep.defined() ? keep : at::ones({b, tokens}, options.dtype(at::kBool));

  // Which token enters which slot, [B, L, S, T]; a slot whose cluster begins holds an old one.
  const auto slot = at::arange(slots, options);
  const auto enters = (own.remainder(slots).unsqueeze(2) == slot.unsqueeze(1))
                          .logical_and(real.unsqueeze(1).unsqueeze(1));
  const auto begins =
      enters.logical_and((own * size == place).unsqueeze(2)).any(-1, true).unsqueeze(1);
  const auto add = [&](Tensor& lane, const Tensor& rows) {
    lane = lane.masked_fill(begins, 0) +
           enters.unsqueeze(1).to(type).matmul(rows.to(type).unsqueeze(2));
  };
  add(keys, heads.k);
  add(values, heads.v);

  // The first token of a cluster is a new one, or row 0, which stands for the open cluster so far.
  const auto rows_at = [&](const Tensor& rows, const Tensor& index) {  // index [B, L or 1, T]
    const auto by_row = index.unsqueeze(1).unsqueeze(-1);
    return rows.gather(3, by_row.expand({b, h, levels, index.size(2), d}));
  };
  const auto first = (own * size - place.narrow(2, 0, 1) + 1).clamp_min(0);
  const auto fresh = heads.q.to(type).unsqueeze(2).expand({b, h, levels, tokens, d});
  const auto q = rows_at(at::cat({queries, fresh}, 3), first);
  queries = rows_at(at::cat({queries, q}, 3), real.sum(1).view({b, 1, 1}));

  const auto last = own.narrow(2, tokens - 1, 1);
  const auto count = size.unsqueeze(-1).to(type);  // [L, 1, 1]
  return {.own = own,
          .index = last - (last - slot).remainder(slots),
          .q = q,
          .k = keys / count,
          .v = values / count};
}

}  // namespace longbow
