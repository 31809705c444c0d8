#include "longbow/nn/features/feature_attention.h"

#include <ATen/ATen.h>

#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kFeatures = 5, kWidth = 3;

Tensor positive(int64_t tokens, uint64_t seed) {
  return random_normal({2, 2, tokens, kFeatures}, seed).abs();
}

TEST(FeatureAttention, SumsAreThoseOfTheDenseWeights) {
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{9, 9}, {3, 3}, {2, 3}, {3, 2}, {4, 70}, {70, 4}})
    for (const bool causal : {false, true}) {
      const auto q = positive(queries, 1), k = positive(keys, 2);
      const auto v = random_normal({2, 2, keys, kWidth}, 3);
      const Context context = {.mask = {.causal = causal}};
      const auto weights =
          q.matmul(k.transpose(-2, -1)) * oracle::visible(context, 2, queries, keys);
      const auto sums = feature_sums(q, k, v, causal);
      EXPECT_NEAR_TENSOR(sums.values, weights.matmul(v), tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(sums.weights, weights.sum(-1, true), tolerance(at::kDouble));
    }
}

// 4 x 4 weights of 100 features, and 4 x 100 x 100 sums.
TEST(FeatureAttention, FewKeysAreReadByTheirWeights) {
  const auto q = random_normal({1, 1, 4, 100}, 8).abs(), v = random_normal({1, 1, 4, 100}, 9);
  for (const bool causal : {false, true})
    EXPECT_LT(measure([&] { (void)feature_sums(q, q, v, causal); }).operations, 4 * 4 * 100 * 8);
}

TEST(FeatureAttention, ExtensionsContinueTheSums) {
  const auto q = positive(11, 4), k = positive(11, 5);
  const auto v = random_normal({2, 2, 11, kWidth}, 6);
  const auto whole = feature_sums(q, k, v, true);
  State state;
  open_feature_sums(state, {.v = v}, kFeatures);
  for (const auto& cut : {std::pair<int64_t, int64_t>{0, 7}, {7, 1}, {8, 3}}) {
    const auto part = [&](const Tensor& x) { return x.narrow(2, cut.first, cut.second); };
    const auto sums = grow_feature_sums(part(q), part(k), part(v), state);
    EXPECT_NEAR_TENSOR(sums.values, part(whole.values), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums.weights, part(whole.weights), tolerance(at::kDouble));
  }
}

TEST(FeatureAttention, ExtensionsReadTheSumsOfAMemory) {
  const auto q = positive(11, 10), k = positive(9, 11);
  const auto v = random_normal({2, 2, 9, kWidth}, 12);
  const auto whole = feature_sums(q, k, v, false);
  State state;
  keep_memory_sums(state, k, v);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, 2, kFeatures, kWidth + 1}));
  for (const auto& cut : {std::pair<int64_t, int64_t>{0, 7}, {7, 1}, {8, 3}}) {
    const auto part = [&](const Tensor& x) { return x.narrow(2, cut.first, cut.second); };
    const auto sums = read_memory_sums(part(q), state);
    EXPECT_NEAR_TENSOR(sums.values, part(whole.values), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums.weights, part(whole.weights), tolerance(at::kDouble));
  }
  state.reset(at::ones({2}, at::kBool));
  EXPECT_NEAR_TENSOR(read_memory_sums(q, state).weights, at::zeros({2, 2, 11, 1}, at::kDouble),
                     kExact);
}

TEST(FeatureAttention, APaddedKeyHasNoFeatures) {
  const auto k = positive(4, 7);
  const auto keep = at::tensor({1, 1, 0, 1, 0, 1, 1, 1}).view({2, 4}).to(at::kBool);
  const auto kept = without_padding(k, keep);
  EXPECT_NEAR_TENSOR(kept[0].select(1, 2), at::zeros({2, kFeatures}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(kept[1].select(1, 0), at::zeros({2, kFeatures}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(kept[0].select(1, 3), k[0].select(1, 3), kExact);
}

}  // namespace
}  // namespace longbow
