#include "longbow/nn/softmax/tiles.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/tensors/meter.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Queries and keys of width 5, values of width 3.
struct Inputs {
  Tensor q, k, v;
  Inputs(int64_t queries, int64_t keys)
      : q(random_normal({2, 3, queries, 5}, 1).requires_grad_()),
        k(random_normal({2, 3, keys, 5}, 2).requires_grad_()),
        v(random_normal({2, 3, keys, 3}, 3).requires_grad_()) {}
  Heads heads() const { return {q, k, v, {}, {}}; }
};

using Read = std::function<Tensor(const Inputs&)>;

// Values and gradients of q, k and v.
void expect_same(const Inputs& inputs, const Read& got, const Read& want, const std::string& what) {
  const auto all = [&](const Read& read) {
    const auto y = read(inputs);
    auto found = torch::autograd::grad({(y * random_normal(y.sizes(), 4)).sum()},
                                       {inputs.q, inputs.k, inputs.v});
    found.push_back(y);
    return found;
  };
  const auto some = all(got), others = all(want);
  for (size_t i = 0; i < some.size(); ++i)
    EXPECT_NEAR_TENSOR(some[i], others[i], (Tolerance{1e-11, 1e-11})) << what << ", tensor " << i;
}

Tensor dense_relu(const Inputs& in, const Seen& seen, const Weighing& weighing,
                  const Context& context) {
  auto weights = in.q.matmul(in.k.transpose(-2, -1)).relu();
  if (const auto visible = seen.pairs(in.heads()); visible.defined())
    weights = weights.masked_fill(visible.logical_not(), 0);
  return dropout(weights, weighing.dropout, weighing.training, context, weighing.path + ".dropout")
      .matmul(in.v);
}

std::vector<Seen> all_kinds(int64_t queries, int64_t keys) {
  std::vector<Seen> kinds;
  const auto lengths = at::tensor({keys - 2, int64_t{0}}, at::kLong);
  const auto keep = Mask::from_lengths(lengths, keys).keep.unsqueeze(1).unsqueeze(1);
  const auto some = random_normal({2, 3, queries, keys}, 5) > 0;
  for (const bool causal : {false, true})
    for (const auto& visible : {Tensor(), keep, some, some.narrow(1, 0, 1)})
      kinds.push_back({.causal = causal, .visible = visible});
  return kinds;
}

// Tiles that divide nothing, rows without a key, fewer and more keys than queries.
TEST(Tiles, AreTheFormulaInValuesAndGradients) {
  for (const int64_t keys : {4, 13, 30})
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{256, 1024}, {4, 5}, {1, 3}, {5, 30}})
      for (const double rate : {0.0, 0.3})
        for (const auto& seen : all_kinds(13, keys)) {
          const Inputs inputs(13, keys);
          const Tiling tiling = {.queries = rows, .keys = columns};
          const Weighing weighing = {.dropout = rate, .training = true, .path = "here"};
          Context context = {.random = Random::from_seed(7, 2)};
          const auto what = std::to_string(keys) + " keys, tiles of " + std::to_string(rows) +
                            " x " + std::to_string(columns);
          expect_same(
              inputs,
              [&](const Inputs& in) {
                return tiled_softmax(in.q, in.k, in.v, seen, tiling, weighing, context);
              },
              [&](const Inputs& in) {
                return softmax_read(in.q, in.k, in.v, seen.pairs(in.heads()), weighing, context);
              },
              "softmax, " + what);
          expect_same(
              inputs,
              [&](const Inputs& in) {
                return tiled_relu(in.q, in.k, in.v, seen, tiling, weighing, context);
              },
              [&](const Inputs& in) { return dense_relu(in, seen, weighing, context); },
              "relu, " + what);
        }
}

TEST(Tiles, HideWhatTheCallerHides) {
  const Inputs inputs(13, 13);
  const auto even = at::arange(13).remainder(2) == 0;
  const Tiling tiling = {.queries = 4, .keys = 5, .hide = [&]() -> OnTile {
                           return [&](const Tile& t, const Tensor& a) {
                             a.masked_fill_(even.narrow(0, t.column, t.columns), kHidden);
                           };
                         }};
  Context context;
  expect_same(
      inputs,
      [&](const Inputs& in) { return tiled_softmax(in.q, in.k, in.v, {}, tiling, {}, context); },
      [&](const Inputs& in) {
        return softmax_read(in.q, in.k, in.v, even.logical_not(), {}, context);
      },
      "odd keys");
}

TEST(Tiles, EachTileShowsItsScoresAndNoneOfTheFuture) {
  const Inputs inputs(9, 11);
  auto scores = at::full({6, 9, 11}, kHidden, at::kDouble);
  const Seen seen = {.causal = true};
  each_tile(inputs.q.detach(), inputs.k.detach(), seen, {.queries = 4, .keys = 3},
            [&](const Tile& t, const Tensor& a) {
              EXPECT_LE(t.column, t.row + t.rows + 1) << "a tile wholly in the future";
              t.of_queries(scores).narrow(2, t.column, t.columns).copy_(a);
            });
  const auto want = inputs.q.matmul(inputs.k.transpose(-2, -1))
                        .masked_fill(seen.pairs(inputs.heads()).logical_not(), kHidden);
  EXPECT_NEAR_TENSOR(scores.exp(), want.flatten(0, 1).exp(), tolerance(at::kDouble));
}

TEST(Tiles, StoreNoPairs) {
  const auto allocated = [](int64_t tokens, double rate) {
    const auto q = random_normal({1, 1, tokens, 4}, 1).requires_grad_();
    const Tiling tiling = {.queries = 64, .keys = 64};
    const Weighing weighing = {.dropout = rate, .training = true};
    const Context context = {.random = Random::from_seed(1)};
    const auto usage = measure([&] {
      for (const auto& read : {tiled_softmax, tiled_relu})
        read(q, q, q, {.causal = true}, tiling, weighing, context, 1).sum().backward();
    });
    return static_cast<double>(usage.allocated_bytes);
  };
  for (const double rate : {0.0, 0.2})
    EXPECT_LT(allocated(2048, rate), 2.1 * allocated(1024, rate));
}

TEST(Tiles, SumInFloat32AtLeast) {
  const auto q = random_normal({1, 1, 4, 4}, 1).to(at::kBFloat16);
  EXPECT_EQ(tiled_softmax(q, q, q, {}, {}, {}, {}).scalar_type(), at::kFloat);
  EXPECT_EQ(tiled_relu(q, q, q, {}, {}, {}, {}).scalar_type(), at::kFloat);
}

TEST(Tiles, OfRowsHoldWholeRowsAndNotMuchMore) {
  for (const int64_t keys : {0, 1, 700, 5000, 1000000}) {
    const auto tiling = Tiling::of_rows(keys);
    EXPECT_GE(tiling.keys, keys);
    EXPECT_GE(tiling.queries, 16);
    EXPECT_LE(tiling.queries * keys, std::max<int64_t>(256 * 1024, 16 * keys));
  }
}

TEST(Tiles, HaveNoSecondDerivativeAndSayWhatHas) {
  const auto q = random_normal({1, 1, 4, 4}, 1).requires_grad_();
  const auto y = tiled_softmax(q, q, q, {}, {}, {}, {}).square().sum();
  EXPECT_EQ(error_of([&] { (void)torch::autograd::grad({y}, {q}, {}, true, true); }),
            "attention in tiles computes its weights again and has no second derivative; form: "
            "naive of softmax and rela has");
}

// The mean of the values that are seen: a read that needs nothing but the rule.
class MeanOfSeen : public AllPairs {
 public:
  explicit MeanOfSeen(const Site& site) : AllPairs(site, 0) {}

 protected:
  Tensor read(const Heads& heads, const Seen& seen, Context&) override {
    const auto pairs = seen.pairs(heads).to(heads.v.scalar_type());
    return pairs.matmul(heads.v) / pairs.sum(-1, true).clamp_min(1);
  }
};

TEST(AllPairs, ExtensionsReadTheCacheAsTheForwardPassReadsAll) {
  const Site site = {.shape = {.width = 6, .heads = 2, .max_length = 16}};
  const auto mixer = multi_head(site, std::make_shared<MeanOfSeen>(site));
  mixer->label({.promises = {.future = Future::exact, .decode = true}});
  const auto x = random_normal({2, 9, 6}, 6).to(at::kFloat);
  const at::NoGradGuard no_grad;
  Context causal = {.mask = {.causal = true}}, context;
  State state;
  mixer->start(state, 2, 9, context);
  const auto first = mixer->extend(x.narrow(1, 0, 4), state, context),
             second = mixer->extend(x.narrow(1, 4, 5), state, context);
  EXPECT_NEAR_TENSOR(at::cat({first, second}, 1), (*mixer)(x, causal), tolerance(at::kFloat));
}

TEST(Seen, IsARuleOfPairsWhereQueriesSeeTheSameKeys) {
  const auto keep = at::tensor({1, 0, 1, 1, 1, 0}).to(at::kBool).view({2, 3});
  const auto all = Seen::by({.causal = true}).sight(0.5);
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->causal);
  EXPECT_FALSE(all->keep.defined());
  EXPECT_EQ(all->scale, 0.5);
  const auto some = Seen::by({.keep = keep}).sight(1);
  ASSERT_TRUE(some);
  EXPECT_FALSE(some->causal);
  EXPECT_TRUE(at::equal(some->keep, keep));
  EXPECT_FALSE((Seen{.visible = at::ones({2, 1, 4, 3}, at::kBool)}.sight(1)));
  EXPECT_FALSE((Seen{.visible = at::ones({2, 5, 1, 3}, at::kBool)}.sight(1)));
}

}  // namespace
}  // namespace longbow
