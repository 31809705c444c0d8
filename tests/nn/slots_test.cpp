#include "longbow/nn/slots/slots.h"

#include <ATen/ATen.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kSlots = 5, kWidth = 4;

Tensor heads_of(int64_t tokens, int64_t width, uint64_t seed) {
  return random_normal({kBatch, kHeads, tokens, width}, seed);
}

struct Example {
  Heads heads;
  Writing writing;
};
Example example(int64_t queries, int64_t keys) {
  return {{.q = heads_of(queries, kWidth, 1),
           .k = heads_of(keys, kWidth, 2),
           .v = heads_of(keys, kWidth, 3)},
          {.weights = heads_of(keys, kSlots, 4),
           .log_keep = -heads_of(keys, kSlots, 5).abs(),
           .divisor = heads_of(keys, kSlots, 6).abs() + 1,
           .visible = heads_of(keys, kSlots, 7) > -0.5}};
}

// Slots of their own for every token.
Tensor by_hand(const Example& e) {
  const int64_t n = e.heads.q.size(2), m = e.heads.k.size(2);
  auto keys = at::zeros({kBatch, kHeads, kSlots, kWidth}, at::kDouble), values = keys;
  auto y = at::zeros_like(e.heads.q);
  for (int64_t t = 0; t < m; ++t) {
    const auto column = [&](const Tensor& rows) { return rows.select(2, t).unsqueeze(-1); };
    const auto fade = e.writing.log_keep.defined() ? column(e.writing.log_keep).exp()
                                                   : at::ones({1}, at::kDouble);
    keys = keys * fade + column(e.writing.weights) * e.heads.k.narrow(2, t, 1);
    values = values * fade + column(e.writing.weights) * e.heads.v.narrow(2, t, 1);
    const int64_t i = t - (m - n);
    if (i < 0) continue;
    const auto divisor = column(e.writing.divisor);
    const auto scores = (keys / divisor).matmul(e.heads.q.select(2, i).unsqueeze(-1));
    const auto weights = scores.exp() * column(e.writing.visible).to(at::kDouble);
    const auto total = weights.sum(2, true);
    y.select(2, i).copy_((weights / total.masked_fill(total == 0, 1) * values / divisor).sum(2));
  }
  return y;
}

TEST(Slots, EveryQueryReadsWhatWasWrittenSoFar) {
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{70, 70}, {3, 9}, {9, 3}, {1, 1}}) {
    auto e = example(n, m);
    Context context;
    EXPECT_NEAR_TENSOR(read_slots(e.heads, e.writing, {}, context), by_hand(e),
                       tolerance(at::kDouble));
    e.writing.log_keep = Tensor();
    EXPECT_NEAR_TENSOR(read_slots(e.heads, e.writing, {}, context), by_hand(e),
                       tolerance(at::kDouble));
  }
}

TEST(Slots, ExtensionsGoOnFromTheState) {
  for (const bool fading : {false, true}) {
    auto e = example(20, 20);
    if (!fading) e.writing.log_keep = Tensor();
    Context context;
    State state;
    open_slots(state, {.k = heads_of(0, kWidth, 1), .v = heads_of(0, kWidth, 1)}, kSlots);
    EXPECT_EQ(state.lane.at("slot_keys").sizes(),
              at::IntArrayRef({kBatch, kHeads, kSlots, kWidth}));
    EXPECT_EQ(state.lane.at("slot_values").sizes(),
              at::IntArrayRef({kBatch, kHeads, kSlots, kWidth}));
    std::vector<Tensor> parts;
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{0, 1}, {1, 12}, {13, 1}, {14, 6}}) {
      const auto piece = [&, first = first, count = count](const Tensor& t) {
        return t.defined() ? t.narrow(2, first, count) : t;
      };
      parts.push_back(
          read_slots({.q = piece(e.heads.q), .k = piece(e.heads.k), .v = piece(e.heads.v)},
                     {piece(e.writing.weights), piece(e.writing.log_keep), piece(e.writing.divisor),
                      piece(e.writing.visible)},
                     {}, context, &state));
    }
    EXPECT_NEAR_TENSOR(at::cat(parts, 2), by_hand(e), tolerance(at::kDouble));
  }
}

TEST(Slots, TheWeightsCanBeSeenAndDropped) {
  const auto e = example(3, 9);
  Tensors maps;
  Context context = {.random = Random::from_seed(1), .maps = &maps};
  const auto y = read_slots(e.heads, e.writing, {.path = "here"}, context);
  EXPECT_EQ(maps.at("here").sizes(), at::IntArrayRef({kBatch, kHeads, 3, kSlots}));
  const Weighing dropping = {.dropout = 0.5, .training = true, .path = "here"};
  EXPECT_FALSE(read_slots(e.heads, e.writing, dropping, context).allclose(y));
}

constexpr int64_t kTokens = 9;
const Tolerance kClose = {1e-12, 1e-12};

SlotRows some(uint64_t seed) {
  return {.rows = random_normal({2, 2, kTokens, kWidth}, seed),
          .weights = random_normal({1, 2, kTokens, kSlots}, seed + 1),
          .divisor = random_normal({2, 1, kTokens, kSlots}, seed + 2).abs() + 0.5,
          .bias = random_normal({1, 2, kSlots, 1}, seed + 3)};
}

// The slots after token t, as the definition says.
Tensor slots_after(const SlotRows& w, int64_t t) {
  const auto sums = w.weights.narrow(2, 0, t + 1).mT().matmul(w.rows.narrow(2, 0, t + 1));
  return sums / w.divisor.narrow(2, t, 1).mT() + w.bias;
}

TEST(Slots, KeysAndValuesMayBeWrittenDifferently) {
  const auto keys = some(1), values = some(10);
  const auto q = random_normal({2, 2, kTokens, kWidth}, 20);
  const auto visible = random_normal({1, 1, kTokens, kSlots}, 21) > -1;
  Context context;
  const auto y = read_slots(q, keys, values, visible, {}, context).y;
  for (int64_t t = 0; t < kTokens; ++t)
    EXPECT_NEAR_TENSOR(y.narrow(2, t, 1),
                       oracle::softmax(q.narrow(2, t, 1) * std::sqrt(static_cast<double>(kWidth)),
                                       slots_after(keys, t), slots_after(values, t),
                                       visible.narrow(2, t, 1).to(at::kDouble)),
                       kClose);
}

TEST(Slots, TheSumsAreWhatWasWrittenBefore) {
  const auto keys = some(1), values = some(10);
  const auto q = random_normal({2, 2, kTokens, kWidth}, 20);
  Context context;
  const auto whole = read_slots(q, keys, values, {}, {}, context).y;
  const auto part = [](const SlotRows& w, int64_t first, int64_t count, const Tensor& sums) {
    const auto cut = [&](const Tensor& t) { return t.narrow(2, first, count); };
    return SlotRows{.rows = cut(w.rows),
                    .weights = cut(w.weights),
                    .divisor = cut(w.divisor),
                    .bias = w.bias,
                    .sums = sums};
  };
  const auto key_sums = grown_slots(part(keys, 0, 4, {})),
             value_sums = grown_slots(part(values, 0, 4, {}));
  const auto rest = read_slots(q.narrow(2, 4, 5), part(keys, 4, 5, key_sums),
                               part(values, 4, 5, value_sums), {}, {}, context);
  EXPECT_NEAR_TENSOR(rest.y, whole.narrow(2, 4, 5), kClose);
  EXPECT_NEAR_TENSOR(rest.keys, grown_slots(keys), kClose);
  EXPECT_NEAR_TENSOR(rest.values, grown_slots(values), kClose);
}

}  // namespace
}  // namespace longbow
