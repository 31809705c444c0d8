#include "longbow/ops/feature_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Inputs {
  Tensor q, k, v, g, keep;
  Inputs(int64_t batch, int64_t heads, int64_t n, int64_t m, int64_t e, int64_t d,
         at::ScalarType type) {
    const auto made = [&](int64_t tokens, int64_t width, uint64_t seed) {
      return random_normal({batch, tokens, heads, width}, seed).transpose(1, 2).to(type);
    };
    q = made(n, e, 1);
    k = made(m, e, 2);
    v = made(m, d, 3);
    g = made(n, d, 4);
    keep = random_normal({batch, m}, 5) > -1;
    keep[0].fill_(false);  // a sequence without keys
    if (batch == 1) keep.narrow(1, 3, 2).fill_(true);
  }
};

void expect_near(const Three& got, const Three& want, Tolerance near) {
  EXPECT_NEAR_TENSOR(std::get<0>(got), std::get<0>(want), near);
  EXPECT_NEAR_TENSOR(std::get<1>(got), std::get<1>(want), near);
}
void expect_near(const std::array<Tensor, 3>& got, const Three& want, Tolerance near) {
  EXPECT_NEAR_TENSOR(got[0], std::get<0>(want), near);
  EXPECT_NEAR_TENSOR(got[1], std::get<1>(want), near);
  EXPECT_NEAR_TENSOR(got[2], std::get<2>(want), near);
}

void expect_the_formula(const Inputs& x, const FeatureProduct& how, Tolerance near,
                        const std::string& what) {
  SCOPED_TRACE(what);
  std::vector<int64_t> maps = {static_cast<int64_t>(how.query_map),
                               static_cast<int64_t>(how.key_map)};
  std::vector<double> bounds;
  if (how.normalised) bounds = {how.added, how.least};
  const auto maybe = [](const Tensor& t) { return t.defined() ? Maybe(t) : Maybe(); };
  const auto got = feature_attention(x.q, x.k, x.v, how);
  const auto want = feature_product_by_aten(x.q, x.k, x.v, maybe(how.keep), maybe(how.query_turns),
                                            maybe(how.key_turns), false, maps, bounds);
  expect_near(got, want, near);
  const auto dweights = random_normal(x.q.sizes().slice(0, 3), 6).to(x.q.scalar_type());
  const auto& inverse = how.normalised ? std::get<1>(got) : dweights;
  expect_near(feature_attention_backward(x.g, x.q, x.k, x.v, inverse, std::get<2>(got), how),
              feature_product_backward_by_aten(x.g, x.q, x.k, x.v, inverse, std::get<2>(want),
                                               maybe(how.keep), maybe(how.query_turns),
                                               maybe(how.key_turns), false, maps, bounds),
              near);
}

TEST(FeatureAttention, IsTheFormulaOfFeatureProduct) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const Inputs x(2, 3, 70, 131, 5, 19, type);
    const auto near = type == at::kDouble ? tolerance(type) : Tolerance{2e-4, 2e-4};
    for (const auto map : {FeatureMap::identity, FeatureMap::relu, FeatureMap::elu,
                           FeatureMap::square, FeatureMap::exp}) {
      FeatureProduct how = {.query_map = map, .key_map = map, .keep = x.keep, .normalised = false};
      expect_the_formula(x, how, near, "sums of map " + std::to_string(static_cast<int>(map)));
      if (map == FeatureMap::identity) continue;
      how.normalised = true;
      how.added = 1e-3;
      expect_the_formula(x, how, near, "quotients of map " + std::to_string(static_cast<int>(map)));
    }
    FeatureProduct how = {.query_map = FeatureMap::relu, .key_map = FeatureMap::exp};
    how.least = 200;  // which is more than the sum of weights of some queries
    expect_the_formula(x, how, near, "two maps, and sums that are too small");
    const auto turns = [&](int64_t rows, int64_t tokens, uint64_t seed) {
      const auto angle = random_normal({rows, tokens}, seed).sigmoid();
      return at::stack({angle.cos(), angle.sin()}, 2).to(type);
    };
    how = {.query_map = FeatureMap::elu,
           .key_map = FeatureMap::elu,
           .query_turns = turns(1, 70, 7),
           .key_turns = turns(2, 131, 8),
           .keep = x.keep,
           .added = 1e-3};
    expect_the_formula(x, how, near, "turned features");
  }
}

TEST(FeatureAttention, IsTheFormulaWhereFeaturesAreGiven) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const int64_t features : {5, 33, 266}) {
      Inputs x(2, 3, 70, 131, features, 19, type);
      x.q = x.q.abs();
      x.k = x.k.abs();
      const auto near = type == at::kDouble ? tolerance(type) : Tolerance{2e-4, 2e-4};
      FeatureProduct how = {.keep = x.keep, .added = 1e-3};
      expect_the_formula(x, how, near, "quotients with hidden keys");
      how.keep = Tensor();
      how.least = x.q.sum(-1).median().item<double>() * 131 * 0.8;  // too much for some queries
      expect_the_formula(x, how, near, "sums that are too small");
      how.key_map = FeatureMap::exp;
      expect_the_formula(x, how, near, "given queries and a map of keys");
    }
}

TEST(FeatureAttention, WhatIsHiddenMayBeAnything) {
  const Inputs x(2, 1, 70, 70, 9, 19, at::kDouble);
  const auto hidden = x.keep.logical_not().view({2, 1, 70, 1});
  const auto clean = feature_attention(x.q, x.k, x.v, {.keep = x.keep, .normalised = false});
  const auto got =
      feature_attention(x.q, x.k.masked_fill(hidden, NAN), x.v.masked_fill(hidden, NAN),
                        {.keep = x.keep, .normalised = false});
  EXPECT_NEAR_TENSOR(std::get<0>(got), std::get<0>(clean), kExact);
}

TEST(FeatureAttention, IsTheFormulaOfRandomProduct) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const Inputs x(2, 3, 70, 131, 5, 19, type);
    const auto near = type == at::kDouble ? tolerance(type) : Tolerance{2e-4, 2e-4};
    for (const int64_t heads : {1, 3}) {
      const RandomProduct how = {
          .omega = random_normal({heads, 23, 5}, 9), .scale = 0.7, .keep = x.keep};
      const auto [out, kept] = random_attention(x.q, x.k, x.v, how);
      EXPECT_NEAR_TENSOR(out, random_product_formula(x.q, x.k, x.v, how), near);
      const auto got = random_attention_backward(x.g, x.q, x.k, x.v, kept, how);
      const auto want = random_product_gradient(x.g, x.q, x.k, x.v, how);
      expect_near(got, Three{want[0], want[1], want[2]}, near);
    }
  }
}

// Keys whose exponents grow along the sequence: sums shrink again and again.
TEST(FeatureAttention, LargeExponentsStayFinite) {
  const Inputs x(1, 1, 40, 300, 8, 8, at::kFloat);
  const auto k = x.k * at::linspace(0, 12, 300).view({1, 1, 300, 1});
  const RandomProduct how = {.omega = random_normal({1, 16, 8}, 9), .scale = 1};
  const auto [out, kept] = random_attention(x.q, k, x.v, how);
  const auto wide = [](const Tensor& t) { return t.to(at::kDouble); };
  const auto want = random_product_formula(wide(x.q), wide(k), wide(x.v), how);
  EXPECT_NEAR_TENSOR(wide(out), want, (Tolerance{1e-3, 1e-3}));
}

// One head is shared out among the threads, and its sums are joined.
TEST(FeatureAttention, PartsOfAHeadAreJoined) {
  const Inputs x(1, 1, 500, 700, 8, 8, at::kDouble);
  const RandomProduct how = {.omega = random_normal({1, 16, 8}, 9), .scale = 1, .keep = x.keep};
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const auto [out, kept] = random_attention(x.q, x.k, x.v, how);
  const auto got = random_attention_backward(x.g, x.q, x.k, x.v, kept, how);
  at::set_num_threads(threads);
  EXPECT_NEAR_TENSOR(out, random_product_formula(x.q, x.k, x.v, how), tolerance(at::kDouble));
  const auto want = random_product_gradient(x.g, x.q, x.k, x.v, how);
  expect_near(got, Three{want[0], want[1], want[2]}, tolerance(at::kDouble));
}

TEST(FeatureAttention, WhatIsNotANumberStaysSo) {
  for (const auto map : {FeatureMap::identity, FeatureMap::relu, FeatureMap::elu,
                         FeatureMap::square, FeatureMap::exp}) {
    const Inputs x(1, 1, 70, 80, 5, 4, at::kDouble);
    x.q[0][0][66][3] = NAN;
    const FeatureProduct how = {.query_map = map, .key_map = map, .normalised = false};
    const auto out = std::get<0>(feature_attention(x.q, x.k, x.v, how));
    EXPECT_TRUE(out[0][0][66].isnan().all().item<bool>());
    EXPECT_FALSE(out[0][0].narrow(0, 0, 66).isnan().any().item<bool>());
  }
}

}  // namespace
}  // namespace longbow
