#include "longbow/ops/block_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "longbow/ops/philox.h"
#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Problem {
  int64_t queries = 23, keys = 31;
  BlockPairs pairs;
  Visibility visibility = {};
  Tensor bias = {};
  Distances distances = {};
};

int64_t at_or(const Tensor& x, int64_t b, int64_t h, int64_t t, int64_t otherwise) {
  if (!x.defined()) return otherwise;
  return x[b % x.size(0)][h % x.size(1)][t].item<int64_t>();
}

// How far key j, or a slot, is behind query i; none where the memory hides it.
std::optional<int64_t> distance_of(const RememberedKeys& memory, int64_t i, int64_t j) {
  const int64_t left = memory.left(i), oldest = left * memory.rate;
  if (j < memory.first_slot)
    return j >= oldest && j <= i ? std::optional<int64_t>(i - j) : std::nullopt;
  const int64_t slot = j - memory.first_slot;
  if (slot >= left || slot < left - memory.slots) return std::nullopt;
  return i - oldest + left - slot;
}

// How often query i reads key j, and the bias of the pair: pair by pair, by the words of the
// header.
struct Dense {
  Tensor times, bias;
};
Dense dense(const Problem& p, int64_t batch, int64_t heads) {
  const auto times = at::zeros({batch, heads, p.queries, p.keys}, at::kDouble);
  const auto bias = at::zeros_like(times);
  const auto& v = p.visibility;
  const auto& columns = p.pairs.columns;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < p.queries; ++i)
        for (int64_t s = 0; s < columns.size(3); ++s) {
          const int64_t u = i / p.pairs.query_block;
          const int64_t block =
              columns[b % columns.size(0)][h % columns.size(1)][u][s].item<int64_t>();
          for (int64_t o = 0; block >= 0 && o < p.pairs.key_block; ++o) {
            const int64_t j = block * p.pairs.key_block + o;
            if (j >= p.keys || !at_or(v.keep, b, h, j, 1)) continue;
            if (at_or(v.query_groups, b, h, i, 0) != at_or(v.key_groups, b, h, j, 0)) continue;
            int64_t distance =
                at_or(v.query_positions, b, h, i, i) - at_or(v.key_positions, b, h, j, j);
            if (v.memory.tokens > 0) {
              const auto found = distance_of(v.memory, i, j);
              if (!found) continue;
              distance = *found;
            }
            const bool far = distance > v.back && at_or(v.key_positions, b, h, j, j) >= v.first;
            if (far || -distance > v.ahead || std::abs(distance) < v.apart) continue;
            times[b][h][i][j] += 1;
            if (v.key_bias.defined())
              bias[b][h][i][j] = v.key_bias[b % v.key_bias.size(0)][h % v.key_bias.size(1)][j];
            if (p.distances.count() > 0) {
              const int64_t ahead = std::clamp(-distance, p.distances.low, p.distances.high);
              bias[b][h][i][j] +=
                  p.bias[b % p.bias.size(0)][h % p.bias.size(1)][i][ahead - p.distances.low];
            } else if (p.bias.defined())
              bias[b][h][i][j] = p.bias[b % p.bias.size(0)][h % p.bias.size(1)][u]
                                       [i % p.pairs.query_block][s * p.pairs.key_block + o];
          }
        }
  return {times, bias};
}

void expect_equal(const Problem& p, const std::string& what) {
  SCOPED_TRACE(what);
  const auto q = random_normal({2, 3, p.queries, 4}, 1), k = random_normal({2, 3, p.keys, 4}, 2),
             v = random_normal({2, 3, p.keys, 5}, 3);
  const auto table = dense(p, 2, 3);
  const auto s = q.matmul(k.transpose(-2, -1)) + table.bias + table.times.log();
  const auto log_sum = s.logsumexp(-1);
  const auto want = at::_safe_softmax(s, -1).matmul(v);
  const auto got = block_softmax(q, k, v, p.pairs, p.visibility, p.bias, {}, p.distances);
  EXPECT_NEAR_TENSOR(got.out, want, tolerance(at::kDouble));
  EXPECT_TRUE(at::equal(got.log_sum.isneginf(), log_sum.isneginf()));
  EXPECT_NEAR_TENSOR(got.log_sum.masked_fill(log_sum.isneginf(), 0),
                     log_sum.masked_fill(log_sum.isneginf(), 0), tolerance(at::kDouble));
}

// Some blocks, among them none and, twice, the last one, which is not full.
Tensor some_columns(int64_t batch, int64_t heads, int64_t rows, int64_t blocks) {
  auto columns = at::empty({batch, heads, rows, 4}, at::kLong);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t u = 0; u < rows; ++u)
        for (int64_t s = 0; s < 4; ++s)
          columns[b][h][u][s] = s == 2 && u % 2 ? -1 : (3 * u + 2 * s + b + h + (s == 3)) % blocks;
  columns.select(2, rows - 1).fill_(-1);
  return columns;
}

Tensor numbers(at::IntArrayRef shape, int64_t below, uint64_t seed) {
  return random_normal(shape, seed).mul(100).to(at::kLong).remainder(below);
}

TEST(BlockSoftmax, IsSoftmaxOverTheListedPairs) {
  Problem p = {.pairs = {5, 4, some_columns(1, 1, 5, 8)}};
  expect_equal(p, "the same pairs for all");
  p.pairs.columns = some_columns(2, 1, 5, 8);
  expect_equal(p, "pairs of a row");
  p.pairs.columns = some_columns(1, 3, 5, 8);
  expect_equal(p, "pairs of a head");
  p.bias = random_normal({1, 3, 5, 5, 16}, 4);
  expect_equal(p, "with a bias");
}

TEST(BlockSoftmax, HidesByPosition) {
  Problem p = {.pairs = {5, 4, some_columns(2, 3, 5, 8)}};
  for (const auto& [back, ahead] : {std::pair{3, 2}, {0, 100}, {100, -1}, {7, 0}})
    for (const int64_t apart : {0, 3}) {
      p.visibility = {.back = back, .ahead = ahead, .apart = apart};
      expect_equal(p, std::to_string(back) + " " + std::to_string(ahead));
    }
  p.visibility = {.back = 3, .ahead = 2, .first = 5};
  expect_equal(p, "the first keys from everywhere");
  p.visibility = {.back = 4, .ahead = 6, .first = 2, .apart = 1};
  p.visibility.query_positions = numbers({1, 3, p.queries}, 20, 5);
  p.visibility.key_positions = numbers({2, 1, p.keys}, 20, 6);
  expect_equal(p, "positions that are given");
  p.visibility.query_groups = numbers({2, 1, p.queries}, 3, 7);
  p.visibility.key_groups = numbers({2, 3, p.keys}, 3, 8);
  p.visibility.keep = numbers({2, 1, p.keys}, 4, 9) > 0;
  expect_equal(p, "groups and hidden keys");
  p.visibility.key_bias = random_normal({2, 1, p.keys}, 10);
  expect_equal(p, "keys of different weight");
}

// Blocks around each: no pair is listed twice.
Tensor near_columns(int64_t blocks) {
  const auto u = at::arange(blocks).unsqueeze(1) + at::arange(-1, 2);
  return u.masked_fill(u >= blocks, -1).view({1, 1, blocks, 3});
}

TEST(BlockSoftmax, ScalesScores) {
  const auto x = [](uint64_t seed) { return random_normal({1, 2, 6, 3}, seed).requires_grad_(); };
  const auto q = x(1), k = x(2), v = x(3);
  const BlockPairs pairs = {3, 2, at::tensor({0, 1, 2, 0}, at::kLong).view({1, 1, 2, 2})};
  const auto bias = random_normal({1, 2, 2, 3, 4}, 4);
  const auto run = [&](const Tensor& queries, double scale) {
    const auto read = block_softmax(queries, k, v, pairs, {}, bias, {}, {}, scale);
    auto found = torch::autograd::grad({read.out, read.log_sum}, {q, k, v},
                                       {read.out.detach(), read.log_sum.detach()});
    found.insert(found.begin(), {read.out.detach(), read.log_sum.detach()});
    return found;
  };
  const auto inside = run(q, 0.3), outside = run(q * 0.3, 1);
  for (size_t i = 0; i < inside.size(); ++i)
    EXPECT_NEAR_TENSOR(inside[i], outside[i], (Tolerance{1e-13, 1e-13})) << i;
}

TEST(BlockSoftmax, AddsABiasByDistance) {
  Problem p = {.queries = 23, .keys = 23, .pairs = {5, 5, near_columns(5)}};
  for (const auto& [low, high] : {std::pair{-2, 3}, {-9, 0}}) {
    p.distances = {low, high};
    p.bias = random_normal({2, 3, 23, high - low + 1}, 4);
    p.visibility = {};
    expect_equal(p, c10::str(low, " to ", high));
    p.visibility = {.ahead = 2, .query_positions = numbers({1, 3, 23}, 20, 5)};
    expect_equal(p, c10::str(low, " to ", high, ", positions that are given"));
  }
}

TEST(BlockSoftmax, ReadsWhatIsRemembered) {
  const auto all = at::arange(7).expand({1, 1, 5, 7});
  Problem p = {.queries = 23, .keys = 34, .pairs = {5, 5, all}};
  for (const auto& memory :
       {RememberedKeys{.tokens = 4},
        {.tokens = 1, .rate = 2, .slots = 3, .first_slot = 25},
        {.tokens = 6, .rate = 3, .slots = 2, .first_slot = 24},
        {.tokens = 5, .segment = 4, .rate = 2, .slots = 40, .first_slot = 23}}) {
    p.visibility.memory = memory;
    p.distances = {};
    p.bias = Tensor();
    expect_equal(p, c10::str("the last ", memory.tokens));
    for (const int64_t farthest : {int64_t{3}, memory.farthest()}) {
      p.distances = {-farthest, 0};
      p.bias = random_normal({2, 3, 23, farthest + 1}, 4);
      expect_equal(p, c10::str("the last ", memory.tokens, ", distances to ", farthest));
    }
  }
}

TEST(BlockSoftmax, HasTheGradientOfABiasByDistance) {
  const auto q = random_normal({2, 2, 7, 3}, 1), bias = random_normal({2, 1, 7, 4}, 2);
  const BlockPairs pairs = {3, 3, near_columns(3)};
  const Distances distances = {-1, 2};
  const auto slope = random_normal({2, 2, 7, 3}, 3);
  const auto value = [&](const Tensor& b) {
    return (block_softmax(q, q, q, pairs, {.back = 4}, b, {}, distances).out * slope).sum();
  };
  const auto leaf = bias.clone().requires_grad_();
  const auto got = torch::autograd::grad({value(leaf)}, {leaf})[0];
  auto want = at::zeros_like(bias);
  for (int64_t i = 0; i < bias.numel(); ++i) {
    const auto step = at::zeros_like(bias);
    step.view({-1})[i] = 1e-5;
    want.view({-1})[i] = (value(bias + step) - value(bias - step)) / 2e-5;
  }
  EXPECT_NEAR_TENSOR(got, want, (Tolerance{1e-7, 1e-7}));
}

TEST(BlockSoftmax, HasTheGradientsOfTheFormula) {
  const auto q = random_normal({2, 2, 7, 3}, 1).requires_grad_(),
             k = random_normal({2, 2, 9, 3}, 2).requires_grad_(),
             v = random_normal({2, 2, 9, 2}, 3).requires_grad_(),
             bias = random_normal({1, 2, 3, 3, 16}, 4).requires_grad_();
  const Problem p = {.queries = 7,
                     .keys = 9,
                     .pairs = {3, 4, some_columns(1, 2, 3, 3)},
                     .visibility = {.ahead = 2, .keep = numbers({2, 1, 9}, 4, 9) > 0},
                     .bias = bias};
  const auto f = [&](bool ours) {
    if (ours) {
      const auto r = block_softmax(q, k, v, p.pairs, p.visibility, bias);
      return (r.out * random_normal(r.out.sizes(), 5)).sum() +
             (r.log_sum.masked_fill(r.log_sum.isneginf(), 0) * random_normal({2, 2, 7}, 6)).sum();
    }
    // The pairs of a query beside each other, by the table of pairs: each listed pair is a column.
    const auto rows = at::arange(7).floor_divide(3);
    const auto columns = p.pairs.columns.index_select(2, rows).clamp_min(0);  // [1, 2, 7, S]
    const auto j = (columns.unsqueeze(-1) * 4 + at::arange(4)).flatten(-2);   // [1, 2, 7, 16]
    const auto listed = p.pairs.columns.index_select(2, rows).repeat_interleave(4, -1) >= 0;
    const auto index = j.clamp_max(8).expand({2, -1, -1, -1}).unsqueeze(-1);
    const auto keys = at::gather(k.unsqueeze(2).expand({-1, -1, 7, -1, -1}), 3,
                                 index.expand({-1, -1, -1, -1, 3}));
    const auto values = at::gather(v.unsqueeze(2).expand({-1, -1, 7, -1, -1}), 3,
                                   index.expand({-1, -1, -1, -1, 2}));
    const auto keep =
        at::gather(p.visibility.keep.unsqueeze(2).expand({-1, 2, 7, -1}), 3, index.squeeze(-1));
    const auto visible = listed.logical_and(j < 9).logical_and(keep).logical_and(
        j - at::arange(7).unsqueeze(-1) <= 2);
    const auto flat = bias.flatten(2, 3).narrow(2, 0, 7);
    const auto s =
        ((q.unsqueeze(-2) * keys).sum(-1) + flat).masked_fill(visible.logical_not(), -INFINITY);
    const auto log_sum = s.logsumexp(-1);
    const auto out = (at::_safe_softmax(s, -1).unsqueeze(-1) * values).sum(-2);
    return (out * random_normal(out.sizes(), 5)).sum() +
           (log_sum.masked_fill(log_sum.isneginf(), 0) * random_normal({2, 2, 7}, 6)).sum();
  };
  const std::vector<Tensor> leaves = {q, k, v, bias};
  EXPECT_NEAR_TENSOR(f(true), f(false), tolerance(at::kDouble));
  const auto got = torch::autograd::grad({f(true)}, leaves),
             want = torch::autograd::grad({f(false)}, leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
}

// Of the weights, forward and backward alike.
TEST(BlockSoftmax, DropsWeights) {
  const auto q = random_normal({1, 2, 12, 3}, 1), k = random_normal({1, 2, 12, 3}, 2);
  const auto v = at::eye(12, at::kDouble).expand({1, 2, 12, 12}).clone().requires_grad_();
  const BlockPairs pairs = {4, 4, at::tensor({0, 1, 2, 0, 1, 2}, at::kLong).view({1, 1, 3, 2})};
  const DroppedWeights dropped = {at::tensor({3, 4}, at::kLong), 77, 0.4};
  const auto whole = block_softmax(q, k, v, pairs).out;
  const auto got = block_softmax(q, k, v, pairs, {}, {}, dropped).out;
  const auto kept = philox_uniform(dropped.key, 77, {1, 2, 3, 4, 8}).ge(0.4);
  auto want = at::zeros({1, 2, 12, 12}, at::kDouble);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 12; ++i)
      for (int64_t s = 0; s < 8; ++s) {
        const int64_t j = pairs.columns[0][0][i / 4][s / 4].item<int64_t>() * 4 + s % 4;
        if (kept[0][h][i / 4][i % 4][s].item<bool>()) want[0][h][i][j] = whole[0][h][i][j] / 0.6;
      }
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
  // Values are multiplied by these weights, so their gradient is the sum over queries.
  const auto gradient = torch::autograd::grad({got.sum()}, {v})[0];
  EXPECT_NEAR_TENSOR(gradient, want.sum(2).unsqueeze(-1).expand({-1, -1, -1, 12}),
                     tolerance(at::kDouble));
}

TEST(BlockSoftmax, WhatChangedBeforeTheBackwardPassIsAnError) {
  const auto q = random_normal({2, 1, 6, 3}, 1).requires_grad_();
  const auto key = at::tensor({3, 4}, at::kLong);
  const auto keep = at::ones({2, 1, 6}, at::kBool);
  const BlockPairs pairs = {3, 3, at::tensor({0, 1}, at::kLong).view({1, 1, 2, 1})};
  for (const bool mask : {false, true}) {
    const auto out = block_softmax(q, q, q, pairs, {.keep = keep}, {}, {key, 77, 0.3}).out;
    if (mask)
      keep.select(2, 1).fill_(false);
    else
      key.select(0, 1).fill_(4);
    EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
              std::string::npos)
        << mask;
  }
}

TEST(BlockSoftmax, TakesNoHeads) {
  const auto x = at::zeros({2, 0, 6, 2});
  const auto got = block_softmax(x, x, x, {3, 3, at::zeros({1, 1, 2, 1}, at::kLong)});
  EXPECT_EQ(got.out.sizes(), x.sizes());
}

TEST(BlockSoftmax, IsRegistered) {
  EXPECT_EQ(missing_kernels("block_softmax"), "");
  EXPECT_EQ(missing_kernels("block_softmax_backward"), "");
}

TEST(BlockSoftmax, NamesWhatDoesNotFit) {
  const auto x = at::zeros({1, 1, 6, 2});
  const auto columns = at::zeros({1, 1, 2, 1}, at::kLong);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x.narrow(3, 0, 1), x, {3, 3, columns});
            }).find("block_softmax: q is [1, 1, 6, 2], k [1, 1, 6, 1], v [1, 1, 6, 2]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x, x, {0, 3, columns});
            }).find("block_softmax: blocks of 0 queries and 3 keys"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x, x, {2, 3, columns});
            }).find("block_softmax: columns are Long [1, 1, 2, 1] for 6 queries in blocks of 2"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x, x, {3, 3, columns}, {}, x, {}, {0, 2});
            }).find("block_softmax: bias is [1, 1, 6, 2] for 6 queries and 3 distances"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x, x, {3, 3, columns}, {.query_groups = at::zeros({1, 1, 6})});
            }).find("block_softmax: query_groups is Float [1, 1, 6], not Long [.., .., 6]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x, x, {3, 3, columns}, {.keep = at::ones({1, 1, 5}, at::kBool)});
            }).find("block_softmax: keep is Bool [1, 1, 5], not Bool [.., .., 6]"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] {
        block_softmax(x, x, x, {3, 3, columns}, {.ahead = 0, .memory = {.tokens = 4, .slots = 2}});
      })
          .find("block_softmax: a memory of 4 tokens and 2 slots of 1 beside limits, positions "
                "or groups"),
      std::string::npos);
  EXPECT_NE(
      error_of([&] {
        block_softmax(x, x, x, {3, 3, columns}, {}, at::zeros({1, 1, 1, 3, 3}));
      })
          .find("block_softmax: bias is [1, 1, 1, 3, 3] for 2 blocks of 3 queries and 3 listed "
                "keys"),
      std::string::npos);
  EXPECT_NE(error_of([&] {
              block_softmax(x, x, x, {3, 3, columns}, {}, {}, {}, {}, -0.5);
            }).find("block_softmax: scale is -0.5, not above 0"),
            std::string::npos);
}

// What kernels read by address.
TEST(BlockSoftmax, NamesARuleThatDoesNotFit) {
  const auto x = at::zeros({4, 3, 6, 2});
  const auto columns = at::zeros({1, 1, 2, 1}, at::kLong), groups = at::zeros({1, 1, 6}, at::kLong);
  const auto error = [&](const Tensor& listed, const Visibility& seen, const Tensor& bias = {}) {
    return error_of([&] { block_softmax(x, x, x, {3, 3, listed}, seen, bias); });
  };
  EXPECT_EQ(error(columns, {.key_bias = at::zeros({1, 1, 5})}),
            "block_softmax: key_bias is Float [1, 1, 5], not Float [.., .., 6]");
  EXPECT_EQ(error(columns, {.query_groups = groups}),
            "block_softmax: query_groups without key_groups");
  EXPECT_EQ(error(columns, {.key_groups = groups}),
            "block_softmax: key_groups without query_groups");
  EXPECT_EQ(error(columns, {.keep = at::ones({2, 1, 6}, at::kBool)}),
            "block_softmax: keep is [2, 1, 6], but q is [4, 3, 6, 2]");
  EXPECT_EQ(error(columns, {.query_positions = groups.expand({1, 2, 6})}),
            "block_softmax: query_positions is [1, 2, 6], but q is [4, 3, 6, 2]");
  EXPECT_EQ(error(columns.expand({1, 2, 2, 1}), {}),
            "block_softmax: columns is [1, 2, 2, 1], but q is [4, 3, 6, 2]");
  EXPECT_EQ(error(columns, {}, at::zeros({2, 1, 2, 3, 3})),
            "block_softmax: bias is [2, 1, 2, 3, 3], but q is [4, 3, 6, 2]");
}

}  // namespace
}  // namespace longbow
