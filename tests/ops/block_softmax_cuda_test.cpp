#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/block_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");
constexpr int64_t kBatch = 2, kHeads = 3;

struct Sizes {
  int64_t queries, keys, query_block, key_block, width = 32, value_width = 32;
};

// Whole numbers below `below`.
Tensor numbers(at::IntArrayRef shape, int64_t below, uint64_t seed) {
  return random_normal(shape, seed).mul(1000).to(at::kLong).remainder(below);
}

// What a call is made of, in float64 on the CPU.
struct Problem {
  Sizes size;
  Tensor q, k, v, dout, dlog_sum;
  BlockPairs pairs;
  Visibility visibility = {};
  Tensor bias = {};
  DroppedWeights dropped = {};
  double scale = 1;
  Distances distances = {};
  bool rounds_bias = false;  // its type is that of queries

  explicit Problem(const Sizes& of, int64_t lists = 1, int64_t listed = 4)
      : size(of),
        q(random_normal({kBatch, kHeads, of.queries, of.width}, 1) / std::sqrt(of.width)),
        k(random_normal({kBatch, kHeads, of.keys, of.width}, 2)),
        v(random_normal({kBatch, kHeads, of.keys, of.value_width}, 3)),
        dout(random_normal({kBatch, kHeads, of.queries, of.value_width}, 4)),
        dlog_sum(random_normal({kBatch, kHeads, of.queries}, 5)) {
    const int64_t rows = (of.queries + of.query_block - 1) / of.query_block,
                  blocks = (of.keys + of.key_block - 1) / of.key_block;
    const int64_t b = lists > 1 ? kBatch : 1, h = lists > 2 ? kHeads : 1;
    // Some blocks, a few of them twice; -1 stands for none, and the last row has nothing else.
    auto columns = numbers({b, h, rows, listed}, blocks, 6);
    columns.masked_fill_(numbers(columns.sizes(), 5, 7) == 0, -1);
    if (rows > 1) columns.select(2, rows - 1).fill_(-1);
    pairs = {of.query_block, of.key_block, columns};
  }
  std::vector<int64_t> weights() const {
    return {kBatch, kHeads, pairs.columns.size(2), size.query_block,
            pairs.columns.size(3) * size.key_block};
  }
};

struct Results {
  Tensor out, log_sum, dq, dk, dv, dbias;
  std::vector<std::pair<std::string, Tensor>> named() const {
    return {{"out", out}, {"dq", dq}, {"dk", dk}, {"dv", dv}};
  }
};

// Inputs are rounded to `rounded` and then computed with in `computed`.
Results results(const Problem& p, at::ScalarType rounded, at::ScalarType computed,
                at::Device device) {
  const auto leaf = [&](const Tensor& x, at::ScalarType type) {
    return x.defined() ? x.to(rounded).to(device, type).requires_grad_() : x;
  };
  const auto there = [&](const Tensor& x) { return x.defined() ? x.to(device) : x; };
  const auto q = leaf(p.q, computed), k = leaf(p.k, computed), v = leaf(p.v, computed);
  const bool keeps = p.rounds_bias || computed == at::kDouble;
  const auto bias = leaf(p.bias, keeps ? computed : at::kFloat);
  auto pairs = p.pairs;
  pairs.columns = there(pairs.columns);
  auto rule = p.visibility;
  for (auto* x : {&rule.keep, &rule.query_positions, &rule.key_positions, &rule.query_groups,
                  &rule.key_groups, &rule.key_bias})
    *x = there(*x);
  auto dropped = p.dropped;
  dropped.key = there(dropped.key);
  const auto got = block_softmax(q, k, v, pairs, rule, bias, dropped, p.distances, p.scale);
  EXPECT_EQ(got.log_sum.scalar_type(), computed == at::kDouble ? at::kDouble : at::kFloat);
  std::vector<Tensor> leaves = {q, k, v};
  if (bias.defined()) leaves.push_back(bias);
  const auto d = torch::autograd::grad(
      {got.out, got.log_sum}, leaves,
      {p.dout.to(rounded).to(device, computed), p.dlog_sum.to(device, got.log_sum.scalar_type())});
  const auto back = [](const Tensor& x) { return x.detach().cpu().to(at::kDouble); };
  return {back(got.out), back(got.log_sum), back(d[0]),
          back(d[1]),    back(d[2]),        bias.defined() ? back(d[3]) : Tensor()};
}

double rounding(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
}

// |got - want| of a token beside |want|, where shorter ones count as the mean.
double error_by_token(const Tensor& got, const Tensor& want) {
  const auto length = want.norm(2, -1);
  const auto mean = length.mean().item<double>();
  return ((got - want).norm(2, -1) / length.clamp_min(mean > 0 ? mean : 1)).max().item<double>();
}

void expect_equal(const Problem& p, const std::string& what, at::ScalarType type = at::kBFloat16,
                  Tolerance sums = {1e-4, 1e-5}) {
  SCOPED_TRACE(what + " " + c10::toString(type));
  const auto got = results(p, type, type, kDevice), want = results(p, type, at::kDouble, at::kCPU);
  for (size_t i = 0; i < want.named().size(); ++i) {
    const auto error = error_by_token(got.named()[i].second, want.named()[i].second);
    EXPECT_LE(error, 16 * rounding(type)) << want.named()[i].first;  // false for NaN
  }
  const auto none = want.log_sum.isneginf();
  EXPECT_TRUE(at::equal(got.log_sum.isneginf(), none));
  EXPECT_NEAR_TENSOR(got.log_sum.masked_fill(none, 0), want.log_sum.masked_fill(none, 0), sums);
  if (p.bias.defined())
    EXPECT_LE((got.dbias - want.dbias).norm().item<double>(),
              16 * rounding(type) * want.dbias.norm().item<double>());
}

TEST(BlockSoftmaxCuda, IsTheFormulaForBlocksOfAllSizes) {
  for (const int64_t block : {1, 7, 16, 64, 100})
    for (const int64_t tokens : {1, 63, 65, 300})
      expect_equal(Problem({tokens, tokens, block, block}), c10::str(tokens, " in ", block));
  for (const int64_t query_block : {1, 7, 130})
    for (const int64_t key_block : {5, 64, 200})
      expect_equal(Problem({137, 301, query_block, key_block}, 2),
                   c10::str("137 in ", query_block, ", 301 in ", key_block));
}

// What was summed so far is then next to nothing beside the tile that follows, or all there is.
TEST(BlockSoftmaxCuda, ScoresMayGrowOrShrinkFromTileToTile) {
  for (const bool grow : {true, false})
    for (const int64_t block : {64, 320}) {
      Problem p({block, 320, block, 64}, 1, 5);
      p.pairs.columns = at::arange(5).view({1, 1, 1, 5});
      const auto along = at::full({p.size.width}, 1 / std::sqrt(p.size.width), at::kDouble);
      const auto steps = at::linspace(grow ? -15 : 15, grow ? 15 : -15, 320, at::kDouble);
      p.q = p.q + 4 * along;
      p.k = p.k + steps.unsqueeze(1) * along;
      expect_equal(p, c10::str(grow ? "growing" : "shrinking", " in ", block));
    }
}

TEST(BlockSoftmaxCuda, TakesAllWidthsAndBothTypes) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto& [e, d] :
         {std::pair{32, 32}, {64, 64}, {128, 128}, {32, 64}, {128, 64}, {8, 24}, {96, 40}})
      expect_equal(Problem({100, 150, 50, 40, e, d}, 3), c10::str(e, " and ", d), type);
  // These have no kernel, and scores are rounded.
  for (const auto& [e, d] : {std::pair{12, 32}, {32, 136}})
    expect_equal(Problem({20, 20, 5, 5, e, d}), c10::str(e, " and ", d), at::kBFloat16,
                 {0.05, 0.05});
}

TEST(BlockSoftmaxCuda, ReadsListsOfAllOfABatchAndOfAHead) {
  for (const int64_t lists : {1, 2, 3})
    for (const int64_t listed : {1, 9})
      expect_equal(Problem({200, 170, 32, 24}, lists, listed), c10::str(lists, " ", listed));
}

// Blocks that are known to have few readers need less memory.
TEST(BlockSoftmaxCuda, KnowsHowManyReadersThereAre) {
  for (const auto& [block, readers] : {std::pair{16, 3}, {16, 4}, {16, 5}, {64, 1}, {64, 2}}) {
    Problem p({300, 300, block, block, 64, 64});
    const int64_t rows = p.pairs.columns.size(2);
    const auto listed = at::arange(rows).unsqueeze(1) + at::arange(readers);
    p.pairs.columns = listed.masked_fill(listed >= rows, -1).view({1, 1, rows, readers});
    p.pairs.readers = readers;
    expect_equal(p, c10::str(readers, " readers of blocks of ", block));
  }
}

// Every block reads its own and its neighbours, so that whole tiles are visible and others are not.
TEST(BlockSoftmaxCuda, HidesByPosition) {
  for (const int64_t block : {16, 128}) {
    const int64_t n = 4 * block - 3;
    Problem p({n, n, block, block, 64, 64});
    const auto u = at::arange(4).unsqueeze(1);
    p.pairs.columns = (u + at::arange(-1, 2)).view({1, 1, 4, 3});
    p.pairs.columns.masked_fill_(p.pairs.columns > 3, -1);
    for (const auto& [back, ahead] : {std::pair<int64_t, int64_t>{block, block},
                                      {3, 2},
                                      {Visibility::kAll, 0},
                                      {0, 100},
                                      {100, -1},
                                      {70, Visibility::kAll}})
      for (const int64_t apart : {0, 20}) {
        p.visibility = {.back = back, .ahead = ahead, .apart = apart};
        expect_equal(p, c10::str("blocks of ", block, ", ", back, " back, ", ahead, " ahead"));
      }
  }
}

TEST(BlockSoftmaxCuda, ShowsTheFirstKeysToAll) {
  for (const auto& [block, first] : {std::pair{16, 1}, {64, 3}, {100, 100}}) {
    const int64_t n = 5 * block - 3;
    Problem p({n, n, block, block, 64, 64});
    const auto u = at::arange(5).unsqueeze(1);
    const auto near = u + at::arange(-1, 2);
    p.pairs.columns =
        at::cat({at::where(u > 1, 0, -1), near.masked_fill(near > 4, -1)}, 1).view({1, 1, 5, 4});
    for (const int64_t ahead : {int64_t{0}, int64_t{block}}) {
      p.visibility = {.back = block, .ahead = ahead, .first = first};
      expect_equal(p, c10::str("blocks of ", block, ", the first ", first, ", ", ahead, " ahead"));
    }
  }
}

TEST(BlockSoftmaxCuda, HidesByGroupAndKey) {
  Problem p({150, 140, 40, 25}, 3);
  p.visibility = {.back = 4, .ahead = 6, .apart = 2};
  p.visibility.query_positions = numbers({1, kHeads, 150}, 20, 8);
  p.visibility.key_positions = numbers({kBatch, 1, 140}, 20, 9);
  expect_equal(p, "positions that are given");
  p.visibility.query_positions = Tensor();
  expect_equal(p, "positions of keys");
  p.visibility = {};
  p.visibility.query_groups = numbers({kBatch, 1, 150}, 3, 10);
  p.visibility.key_groups = numbers({kBatch, kHeads, 140}, 3, 11);
  expect_equal(p, "groups");
  p.visibility.keep = numbers({kBatch, 1, 140}, 4, 12) > 0;
  p.visibility.keep[1].fill_(false);
  expect_equal(p, "groups and hidden keys");
  p.visibility = {.keep = p.visibility.keep};
  expect_equal(p, "hidden keys");
}

TEST(BlockSoftmaxCuda, AddsABias) {
  for (const auto& [b, h] : {std::pair{1, 1}, {1, 3}, {2, 3}}) {
    Problem p({100, 90, 30, 20}, 2);
    auto shape = p.weights();
    shape[0] = b;
    shape[1] = h;
    p.bias = random_normal(shape, 13);
    expect_equal(p, c10::str("bias of ", b, " and ", h));
    p.visibility = {.back = 10, .keep = numbers({kBatch, 1, 90}, 4, 12) > 0};
    expect_equal(p, c10::str("bias of ", b, " and ", h, ", hidden keys"));
  }
}

// Powers of two are multiplied with on chip; by others queries are multiplied before, and rounded.
TEST(BlockSoftmaxCuda, ScalesScores) {
  for (const double scale : {0.125, 2.0, 0.3})
    for (const int64_t listed : {1, 6}) {
      Problem p({300, 300, 64, 32, 64, 48}, 2, listed);
      p.scale = scale;
      expect_equal(p, c10::str(scale, " ", listed));
      p.bias = random_normal(p.weights(), 8);
      expect_equal(p, c10::str(scale, " ", listed, " and a bias"));
    }
  Problem few({3000, 40, 3000, 40}, 1, 1);  // sums over queries in parts
  few.pairs.columns.zero_();
  few.scale = 0.25;
  expect_equal(few, "parts");
}

TEST(BlockSoftmaxCuda, AddsABiasOfKeys) {
  for (const int64_t block : {16, 30}) {
    Problem p({100, 90, block, block, 64, 64}, 2);
    p.visibility.key_bias = random_normal({kBatch, 1, 90}, 14).to(at::kFloat);
    expect_equal(p, c10::str("blocks of ", block));
    p.visibility.apart = 2;
    p.visibility.query_positions = at::arange(100).floor_divide(8).view({1, 1, 100});
    p.visibility.key_positions = at::arange(90).floor_divide(8).view({1, 1, 90});
    p.visibility.keep = numbers({kBatch, 1, 90}, 4, 12) > 0;
    expect_equal(p, c10::str("blocks of ", block, ", some hidden"));
    p.bias = random_normal(p.weights(), 13);
    expect_equal(p, c10::str("blocks of ", block, ", beside a bias of pairs"));
  }
}

TEST(BlockSoftmaxCuda, AddsABiasByDistance) {
  for (const auto& [low, high] : {std::pair{-12, 12}, {-70, 0}, {0, 0}, {-200, 200}})
    for (const int64_t block : {16, 64}) {
      Problem p({150, 150, block, block, 64, 64});
      const int64_t rows = p.pairs.columns.size(2);
      const auto near = at::arange(rows).unsqueeze(1) + at::arange(-1, 2);
      p.pairs.columns = near.masked_fill(near >= rows, -1).view({1, 1, rows, 3});
      p.distances = {low, high};
      p.bias = random_normal({kBatch, kHeads, 150, high - low + 1}, 13);
      expect_equal(p, c10::str(low, " to ", high, ", blocks of ", block));
      p.visibility = {.back = 40, .ahead = 9, .keep = numbers({kBatch, 1, 150}, 4, 12) > 0};
      expect_equal(p, c10::str(low, " to ", high, ", blocks of ", block, ", some hidden"));
      p.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.2};
      expect_equal(p, c10::str(low, " to ", high, ", blocks of ", block, ", some dropped"));
      p.rounds_bias = true;
      for (const auto type : {at::kBFloat16, at::kHalf})
        expect_equal(p, c10::str(low, " to ", high, ", blocks of ", block, ", rounded"), type);
    }
}

// As it is read without a copy: in windows where it has a number for every key that is read.
TEST(BlockSoftmaxCuda, AddsARoundedBiasByDistance) {
  for (const auto& [low, high] : {std::pair{-12, 12}, {-70, 0}, {0, 0}, {-40, 9}, {-200, 200}})
    for (const int64_t block : {16, 64}) {
      Problem p({150, 150, block, block, 64, 64});
      const int64_t rows = p.pairs.columns.size(2), count = high - low + 1;
      const auto near = at::arange(rows).unsqueeze(1) + at::arange(-1, 2);
      p.pairs.columns = near.masked_fill(near >= rows, -1).view({1, 1, rows, 3});
      p.distances = {low, high};
      p.rounds_bias = true;
      for (const bool by_token : {false, true})
        for (const bool hides : {false, true}) {
          p.bias = by_token ? random_normal({kBatch, 150, kHeads, count}, 13).transpose(1, 2)
                            : random_normal({kBatch, kHeads, 150, count}, 13);
          p.visibility = {};
          if (hides)
            p.visibility = {.back = 40, .ahead = 9, .keep = numbers({kBatch, 1, 150}, 4, 12) > 0};
          for (const auto type : {at::kBFloat16, at::kHalf})
            expect_equal(
                p, c10::str(low, " to ", high, ", blocks of ", block, " ", by_token, hides), type);
        }
    }
}

TEST(BlockSoftmaxCuda, ReadsWhatIsRemembered) {
  for (const auto& memory :
       {RememberedKeys{.tokens = 70},
        {.tokens = 1, .rate = 2, .slots = 30, .first_slot = 192},
        {.tokens = 33, .rate = 4, .slots = 20, .first_slot = 192},
        {.tokens = 20, .segment = 24, .rate = 3, .slots = 9, .first_slot = 150}})
    for (const int64_t block : {16, 64}) {
      Problem p({150, 250, block, block, 64, 64});
      const int64_t rows = p.pairs.columns.size(2), blocks = (250 + block - 1) / block;
      p.pairs.columns = at::arange(blocks).expand({1, 1, rows, blocks});
      const auto what = c10::str("the last ", memory.tokens, ", blocks of ", block);
      p.visibility.memory = memory;
      expect_equal(p, what, at::kBFloat16, {0.05, 0.05});  // there is no kernel
      p.distances = {-memory.farthest(), 0};
      p.bias = random_normal({kBatch, kHeads, 150, memory.farthest() + 1}, 13);
      expect_equal(p, what + ", by distance");
      p.rounds_bias = true;
      for (const auto type : {at::kBFloat16, at::kHalf}) expect_equal(p, what + ", rounded", type);
      p.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.2};
      p.visibility.keep = numbers({kBatch, 1, 250}, 4, 12) > 0;
      expect_equal(p, what + ", some hidden and some dropped");
    }
}

TEST(BlockSoftmaxCuda, DropsTheWeightsOfTheFormula) {
  for (const auto& [query_block, key_block] : {std::pair{32, 16}, {7, 9}, {64, 64}}) {
    Problem p({60, 64, query_block, key_block, 64, 64});
    p.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.4};
    p.v = at::eye(64, at::kDouble).expand({kBatch, kHeads, 64, 64});
    p.pairs.columns = at::arange(p.pairs.columns.size(2))
                          .view({1, 1, -1, 1})
                          .remainder((64 + key_block - 1) / key_block);
    const auto got = results(p, at::kBFloat16, at::kBFloat16, kDevice),
               want = results(p, at::kBFloat16, at::kDouble, at::kCPU);
    EXPECT_TRUE(at::equal(got.out == 0, want.out == 0));
    for (const int64_t lists : {1, 3}) {
      Problem other({60, 90, query_block, key_block, 64, 64}, lists);
      other.dropped = p.dropped;
      expect_equal(other, c10::str("dropped, blocks of ", query_block, " and ", key_block));
    }
  }
}

// More of them than are sorted on chip.
TEST(BlockSoftmaxCuda, TakesManyBlocks) {
  expect_equal(Problem({64, 1100, 64, 1, 8, 8}, 3, 40), "1100 blocks of keys");
}

// One key that many queries read: their sum is made in parts.
TEST(BlockSoftmaxCuda, SumsOverManyQueries) {
  Problem p({5000, 3, 5000, 3, 64, 64});
  p.pairs.columns = at::zeros({1, 1, 1, 1}, at::kLong);
  expect_equal(p, "one block of many queries");
}

TEST(BlockSoftmaxCuda, TakesRowsWithGapsAndOddAddresses) {
  const auto all = random_normal({2, 70, 3, 73}, 1).to(at::kBFloat16).to(kDevice);
  const BlockPairs pairs = {35, 35,
                            at::tensor({0, 1, 1, 0}, at::kLong).view({1, 1, 2, 2}).to(kDevice)};
  const auto heads = [&](int64_t first) {
    return all.transpose(1, 2).narrow(3, first, 64);  // strides of 73: copied
  };
  const auto tokens = all.narrow(3, 0, 64).contiguous().transpose(1, 2);  // taken as they are
  const auto q = heads(1), k = heads(0), v = tokens;
  const auto got = block_softmax(q, k, v, pairs),
             want = block_softmax(q.contiguous(), k.contiguous(), v.contiguous(), pairs);
  EXPECT_TRUE(at::equal(got.out, want.out));
  EXPECT_TRUE(at::equal(got.log_sum, want.log_sum));
}

TEST(BlockSoftmaxCuda, IsTheSameEveryTime) {
  Problem p({700, 700, 64, 64, 64, 64}, 3);
  p.dropped = {at::tensor({3, 4}, at::kLong), 77, 0.1};
  const auto first = results(p, at::kBFloat16, at::kBFloat16, kDevice),
             again = results(p, at::kBFloat16, at::kBFloat16, kDevice);
  for (size_t i = 0; i < first.named().size(); ++i)
    EXPECT_TRUE(at::equal(first.named()[i].second, again.named()[i].second))
        << first.named()[i].first;
  EXPECT_TRUE(at::equal(first.log_sum, again.log_sum));
}

TEST(BlockSoftmaxCuda, IsReplayedByAGraph) {
  const Problem p({200, 200, 50, 50, 64, 64}, 3);
  const auto make = [&](const Tensor& x) { return x.to(kDevice, at::kBFloat16); };
  const auto q = make(p.q).requires_grad_(), k = make(p.k).requires_grad_(),
             v = make(p.v).requires_grad_();
  const auto dout = make(p.dout);
  BlockPairs pairs = p.pairs;
  pairs.columns = pairs.columns.to(kDevice);
  const auto step = [&] {
    const auto r = block_softmax(q, k, v, pairs, {.ahead = 0});
    auto found = torch::autograd::grad({r.out}, {q, k, v}, {dout});
    found.push_back(r.out.detach());
    return found;
  };
  at::cuda::CUDAGraph graph;
  std::vector<Tensor> captured;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    (void)step();
    graph.capture_begin();
    captured = step();
    graph.capture_end();
  }
  c10::cuda::device_synchronize();
  q.detach().copy_(make(random_normal(p.q.sizes(), 21)));
  pairs.columns.copy_(Problem({200, 200, 50, 50, 64, 64}, 3, 4).pairs.columns.flip(3).flip(2));
  graph.replay();
  const auto eager = step();
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(at::equal(captured[i], eager[i])) << i;
}

}  // namespace
}  // namespace longbow
