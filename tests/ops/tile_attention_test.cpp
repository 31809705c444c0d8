#include "longbow/ops/tile_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>

#include "longbow/ops/pair_product_formula.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Problem {
  int64_t queries, keys, width, value_width;
  BlockRule rule;
  Tensor bias = {};
};

Tensor numbers(at::IntArrayRef shape, int64_t below, uint64_t seed) {
  return random_normal(shape, seed).mul(100).to(at::kLong).remainder(below);
}

// Some blocks, among them none.
Tensor columns(int64_t batch, int64_t heads, int64_t rows, int64_t listed, int64_t blocks) {
  return numbers({batch, heads, rows, listed}, blocks + 1, 9) - 1;
}

void expect_the_formula(const Problem& p, at::ScalarType type, const std::string& what) {
  SCOPED_TRACE(what);
  const auto made = [&](int64_t tokens, int64_t width, uint64_t seed) {
    return random_normal({2, tokens, 3, width}, seed).transpose(1, 2).to(type);
  };
  const auto q = made(p.queries, p.width, 1), k = made(p.keys, p.width, 2),
             v = made(p.keys, p.value_width, 3), dout = made(p.queries, p.value_width, 4);
  const auto dlog_sum = random_normal({2, 3, p.queries}, 5).to(type);
  const auto bias = p.bias.defined() ? p.bias.to(type) : p.bias;
  const bool wants_bias = bias.defined();
  const auto near = tolerance(type);
  const auto [want, want_sums] = block_softmax_formula(q, k, v, bias, p.rule);
  const auto [got, sums] = tile_attention(q, k, v, bias, p.rule, TileWeights::softmax);
  EXPECT_NEAR_TENSOR(got, want, near);
  EXPECT_TRUE(at::equal(sums.isneginf(), want_sums.isneginf()));
  const auto hidden = want_sums.isneginf();
  EXPECT_NEAR_TENSOR(sums.masked_fill(hidden, 0), want_sums.masked_fill(hidden, 0), near);
  const BlockSoftmaxPast past = {q, k, v, bias, want, want_sums, dout, dlog_sum, wants_bias};
  const auto [dq, dk, dv, dbias] = tile_attention_backward(past, p.rule, TileWeights::softmax);
  const auto [wq, wk, wv, wbias] = block_softmax_formula_backward(past, p.rule);
  EXPECT_NEAR_TENSOR(dq, wq, near);
  EXPECT_NEAR_TENSOR(dk, wk, near);
  EXPECT_NEAR_TENSOR(dv, wv, near);
  if (wants_bias) EXPECT_NEAR_TENSOR(dbias, wbias, near);
}

// More than one tile of each, blocks that are no multiple of a tile, channels of no whole vector.
TEST(TileAttention, IsTheFormulaOfBlockSoftmax) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    Problem p = {150, 170, 5, 21, {.pairs = {70, 33, columns(2, 1, 3, 4, 6)}}};
    expect_the_formula(p, type, "listed blocks");
    p.rule.scale = 0.37;
    p.rule.visibility = {
        .back = 40, .ahead = 11, .first = 3, .apart = 2, .keep = numbers({2, 1, p.keys}, 4, 6) > 0};
    expect_the_formula(p, type, "by position");
    p.rule.visibility.query_positions = numbers({1, 3, p.queries}, 90, 7);
    p.rule.visibility.key_positions = numbers({2, 1, p.keys}, 90, 8);
    p.rule.visibility.query_groups = numbers({2, 1, p.queries}, 2, 9);
    p.rule.visibility.key_groups = numbers({1, 3, p.keys}, 2, 10);
    p.rule.visibility.key_bias = random_normal({1, 3, p.keys}, 11);
    p.bias = random_normal({1, 3, 3, 70, 4 * 33}, 12);
    expect_the_formula(p, type, "with everything");
    p.rule.distances = {-7, 20};
    p.bias = random_normal({2, 1, p.queries, 28}, 13);
    expect_the_formula(p, type, "a bias by distance");
    p.rule.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.3};
    expect_the_formula(p, type, "weights that are dropped");
  }
}

// Products of bfloat16 round weights and the gradients of scores to it: 2^-9 each.
void expect_nearly(const Tensor& got, const Tensor& want, const char* what) {
  const auto off = (got.to(at::kDouble) - want).norm().item<double>();
  EXPECT_LE(off, 6e-3 * want.norm().item<double>() + 1e-12) << what;
  EXPECT_TRUE(got.isfinite().all().item<bool>()) << what;
}

void expect_the_formula_by_halves(const Problem& p, const std::string& what) {
  SCOPED_TRACE(what);
  const auto made = [&](int64_t tokens, int64_t width, uint64_t seed) {
    return random_normal({2, tokens, 3, width}, seed).transpose(1, 2).to(at::kBFloat16);
  };
  const auto exact = [](const Tensor& x) { return x.to(at::kDouble); };
  const auto q = made(p.queries, p.width, 1), k = made(p.keys, p.width, 2),
             v = made(p.keys, p.value_width, 3), dout = made(p.queries, p.value_width, 4);
  const auto dlog_sum = random_normal({2, 3, p.queries}, 5);
  const bool wants_bias = p.bias.defined();
  const auto [want, want_sums] =
      block_softmax_formula(exact(q), exact(k), exact(v), p.bias, p.rule);
  const auto [got, sums] = tile_attention(q, k, v, p.bias, p.rule, TileWeights::softmax);
  expect_nearly(got, want, "out");
  const auto hidden = want_sums.isneginf();
  EXPECT_TRUE(at::equal(sums.isneginf(), hidden));
  EXPECT_NEAR_TENSOR(exact(sums).masked_fill(hidden, 0), want_sums.masked_fill(hidden, 0),
                     tolerance(at::kFloat));
  const auto [wq, wk, wv, wbias] = block_softmax_formula_backward(
      {exact(q), exact(k), exact(v), p.bias, want, want_sums, exact(dout), dlog_sum, wants_bias},
      p.rule);
  for (const auto type : {at::kBFloat16, at::kFloat}) {  // out is rounded, or not
    const auto [dq, dk, dv, dbias] = tile_attention_backward(
        {q, k, v, p.bias, want.to(type), sums, dout, dlog_sum.to(at::kFloat), wants_bias}, p.rule,
        TileWeights::softmax);
    EXPECT_EQ(dq.scalar_type(), at::kBFloat16);
    expect_nearly(dq, wq, "dq");
    expect_nearly(dk, wk, "dk");
    expect_nearly(dv, wv, "dv");
    if (wants_bias) expect_nearly(dbias, wbias, "dbias");
  }
}

// Odd numbers of channels and of keys end in half a word.
TEST(TileAttention, HalvesAreTheFormulaToTheirRounding) {
  for (const auto& [width, value_width] : {std::pair<int64_t, int64_t>{5, 21}, {64, 32}, {34, 7}}) {
    Problem p = {150, 170, width, value_width, {.pairs = {70, 33, columns(2, 1, 3, 4, 6)}}};
    p.rule.scale = 0.37 / std::sqrt(width);
    expect_the_formula_by_halves(p, "listed blocks");
    p.rule.visibility = {
        .back = 40, .ahead = 11, .first = 3, .apart = 2, .keep = numbers({2, 1, p.keys}, 4, 6) > 0};
    expect_the_formula_by_halves(p, "by position");
    p.rule.visibility.query_positions = numbers({1, 3, p.queries}, 90, 7);
    p.rule.visibility.key_positions = numbers({2, 1, p.keys}, 90, 8);
    p.rule.visibility.query_groups = numbers({2, 1, p.queries}, 2, 9);
    p.rule.visibility.key_groups = numbers({1, 3, p.keys}, 2, 10);
    p.rule.visibility.key_bias = random_normal({1, 3, p.keys}, 11);
    p.bias = random_normal({1, 3, 3, 70, 4 * 33}, 12);
    expect_the_formula_by_halves(p, "with everything");
    p.rule.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.3};
    expect_the_formula_by_halves(p, "weights that are dropped");
  }
  Problem all = {130, 700, 64, 64, {.pairs = one_block(130, 700), .scale = 0.125}};
  expect_the_formula_by_halves(all, "keys beside each other");
  all.rule.visibility.ahead = 70;
  expect_the_formula_by_halves(all, "causal");
}

// The memory of a call holds what others left there, which need not be numbers. 17 queries end in
// the middle of a word.
TEST(TileAttention, HalvesOfOddTilesReadNothingElse) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  Problem p = {17, 17, 32, 32, {.pairs = one_block(17, 17)}};
  p.rule.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.3};
  for (int i = 0; i < 3; ++i) {
    std::vector<float>(1 << 20, NAN).clear();
    expect_the_formula_by_halves(p, "an odd number of queries");
  }
  at::set_num_threads(threads);
}

TEST(TileAttention, AllPairsAreOneBlock) {
  Problem p = {130, 200, 64, 64, {.pairs = one_block(130, 200), .scale = 0.125}};
  for (const auto type : {at::kDouble, at::kFloat}) {
    p.rule.visibility = {};
    expect_the_formula(p, type, "all");
    p.rule.visibility.ahead = 70;
    expect_the_formula(p, type, "causal");
  }
}

// Gradients of keys are written at once then, unless some are not seen.
TEST(TileAttention, FewQueriesAreOneTile) {
  Problem p = {40, 200, 21, 16, {.pairs = one_block(40, 200), .scale = 0.125}};
  for (const auto type : {at::kDouble, at::kFloat}) {
    p.rule.pairs.columns = at::zeros({1, 1, 1, 1}, at::kLong);
    p.rule.visibility = {};
    expect_the_formula(p, type, "all");
    p.rule.visibility.keep = numbers({2, 1, p.keys}, 4, 6) > 0;
    expect_the_formula(p, type, "some");
    p.rule.visibility = {.ahead = 100};
    expect_the_formula(p, type, "near ones");
    p.rule.visibility = {};
    p.rule.pairs.columns = at::full({1, 1, 1, 1}, -1, at::kLong);
    expect_the_formula(p, type, "none");
  }
}

TEST(TileAttention, RowsOfOneHeadAreSharedOutToo) {
  const auto q = random_normal({1, 1, 300, 16}, 1), k = random_normal({1, 1, 260, 16}, 2),
             v = random_normal({1, 1, 260, 16}, 3), dout = random_normal({1, 1, 300, 16}, 4);
  const BlockRule rule = {.pairs = one_block(300, 260)};
  const auto [out, sums] = block_softmax_formula(q, k, v, {}, rule);
  const BlockSoftmaxPast past = {q, k, v, {}, out, sums, dout, {}, false};
  const auto [dq, dk, dv, none] = tile_attention_backward(past, rule, TileWeights::softmax);
  const auto [wq, wk, wv, also_none] = block_softmax_formula_backward(past, rule);
  EXPECT_NEAR_TENSOR(dq, wq, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(dk, wk, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(dv, wv, tolerance(at::kDouble));
}

TEST(TileAttention, WeightsMayBeRectifiedScores) {
  const auto q = random_normal({2, 3, 90, 7}, 1), k = random_normal({2, 3, 80, 7}, 2),
             v = random_normal({2, 3, 80, 5}, 3), dout = random_normal({2, 3, 90, 5}, 4);
  const auto keep = numbers({2, 80}, 4, 5) > 0;
  const BlockRule rule = {.pairs = one_block(90, 80),
                          .visibility = {.ahead = -10, .keep = keep.unsqueeze(1)},
                          .scale = 0.3};
  const auto [want, none] = pair_product_by_aten(q, k, v, keep, true, 0.3, {});
  const auto [got, sums] = tile_attention(q, k, v, {}, rule, TileWeights::relu);
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
  EXPECT_FALSE(sums.defined());
  const auto [dq, dk, dv, no_bias] =
      tile_attention_backward({q, k, v, {}, {}, {}, dout, {}, false}, rule, TileWeights::relu);
  const auto [wq, wk, wv] =
      pair_product_backward_by_aten(dout, q, k, v, keep, true, 0.3, {}, none, none);
  EXPECT_NEAR_TENSOR(dq, wq, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(dk, wk, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(dv, wv, tolerance(at::kDouble));
}

TEST(TileAttention, HalfTypesAreAddedUpInFloat32) {
  const auto q = random_normal({1, 2, 70, 8}, 1).to(at::kBFloat16),
             k = random_normal({1, 2, 90, 8}, 2).to(at::kBFloat16),
             v = random_normal({1, 2, 90, 8}, 3).to(at::kBFloat16);
  const BlockRule rule = {.pairs = one_block(70, 90)};
  const auto [out, sums] = tile_attention(q, k, v, {}, rule, TileWeights::softmax);
  const auto wide = [](const Tensor& x) { return x.to(at::kFloat); };
  const auto [want, want_sums] = block_softmax_formula(wide(q), wide(k), wide(v), {}, rule);
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_NEAR_TENSOR(wide(out), want, (Tolerance{4e-3, 8e-3}));  // weights may be rounded, too
  EXPECT_NEAR_TENSOR(sums, want_sums, tolerance(at::kFloat));
}

// A run that diverges must be seen to: neither a relu nor a maximum may make a number of a NaN.
TEST(TileAttention, WhatIsNotANumberStaysSo) {
  const BlockRule rule = {.pairs = one_block(70, 90)};
  for (const auto weights : {TileWeights::softmax, TileWeights::relu, TileWeights::score}) {
    const auto q = random_normal({1, 1, 70, 8}, 1), k = random_normal({1, 1, 90, 8}, 2),
               v = random_normal({1, 1, 90, 8}, 3), dout = random_normal({1, 1, 70, 8}, 4);
    q[0][0][66][3] = NAN;
    const auto [out, sums] = tile_attention(q, k, v, {}, rule, weights);
    EXPECT_TRUE(out[0][0][66].isnan().all().item<bool>());
    EXPECT_FALSE(out[0][0].narrow(0, 0, 66).isnan().any().item<bool>());
    const auto [dq, dk, dv, none] =
        tile_attention_backward({q, k, v, {}, out, sums, dout, {}, false}, rule, weights);
    EXPECT_TRUE(dv.isnan().all().item<bool>());
    EXPECT_FALSE(dq[0][0].narrow(0, 0, 66).isnan().any().item<bool>());
  }
}

TEST(TileAttention, AKeyThatChangedBeforeTheBackwardPassIsAnError) {
  const auto q = random_normal({1, 2, 20, 8}, 1).requires_grad_();
  const auto key = at::tensor({3, 4}, at::kLong);
  const BlockRule rule = {.pairs = one_block(20, 20), .visibility = {}, .dropped = {key, 77, 0.3}};
  const auto out = attend_tiles(q, q, q, rule, TileWeights::relu);
  key.select(0, 1).fill_(4);
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(TileAttention, NamesWhatDoesNotFit) {
  const auto x = at::zeros({2, 3, 20, 8});
  const auto error = [&](const Tensor& k, const Visibility& seen) {
    const BlockRule rule = {.pairs = one_block(20, 20), .visibility = seen, .dropped = {}};
    return error_of([&] { (void)attend_tiles(x, k, k, rule, TileWeights::score); });
  };
  EXPECT_EQ(error(x.narrow(3, 0, 7), {}),
            "attend_tiles: q is [2, 3, 20, 8], k [2, 3, 20, 7], v [2, 3, 20, 7] on cpu");
  EXPECT_EQ(error(x, {.keep = at::ones({2, 1, 19}, at::kBool)}),
            "attend_tiles: keep is Bool [2, 1, 19], not Bool [.., .., 20]");
  EXPECT_EQ(error(x, {.memory = {.tokens = 4}}),
            "attend_tiles: a memory of 4 tokens, but the kernels know none");
}

// Nor may the logarithm of a sum say that nothing was seen.
TEST(TileAttention, TheLogarithmOfWhatIsNotANumberStaysSo) {
  const BlockRule rule = {.pairs = one_block(70, 90)};
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto made = [&](int64_t tokens, uint64_t seed) {
      return random_normal({1, 1, tokens, 8}, seed).to(type);
    };
    const auto q = made(70, 1), k = made(90, 2), v = made(90, 3), dout = made(70, 4);
    const auto bad = q.clone();
    bad[0][0][66][3] = NAN;
    const auto [row, one] = tile_attention(bad, k, v, {}, rule, TileWeights::softmax);
    EXPECT_TRUE(one[0][0][66].isnan().item<bool>());
    EXPECT_EQ(one.isnan().sum().item<int64_t>(), 1);
    k[0][0][5][3] = NAN;
    const auto [out, sums] = tile_attention(q, k, v, {}, rule, TileWeights::softmax);
    EXPECT_TRUE(sums.isnan().all().item<bool>());
    const auto [want, want_sums] = block_softmax_formula(q, k, v, {}, rule);
    EXPECT_TRUE(want_sums.isnan().all().item<bool>());
    const auto [dq, dk, dv, none] = tile_attention_backward(
        {q, k, v, {}, out, sums, dout, {}, false}, rule, TileWeights::softmax);
    const auto [wq, wk, wv, also_none] =
        block_softmax_formula_backward({q, k, v, {}, want, want_sums, dout, {}, false}, rule);
    EXPECT_TRUE(at::equal(dq.isnan(), wq.isnan()));
    EXPECT_TRUE(at::equal(dk.isnan(), wk.isnan()));
    EXPECT_TRUE(at::equal(dv.isnan(), wv.isnan()));
  }
}

}  // namespace
}  // namespace longbow
