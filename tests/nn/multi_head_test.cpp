#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/nn/contract/mixer.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Heads, ChannelsBelongToHeadsInOrder) {
  const auto x = at::arange(24, at::kDouble).view({2, 2, 6});
  const auto split = split_heads(x, 3);
  EXPECT_EQ(split.sizes(), (at::IntArrayRef{2, 3, 2, 2}));
  EXPECT_EQ(split[1][2][0][1].item<double>(), x[1][0][5].item<double>());
  EXPECT_NEAR_TENSOR(merge_heads(split), x, kExact);
}

// Gives the values back, and keeps what it was called with.
class Echo : public AttentionImpl {
 public:
  Tensor attend(const Heads& heads, Context&) override {
    last = heads;
    return heads.q * 0 + heads.v.mean(2, true);
  }
  Heads last;
};

TEST(MultiHead, ProjectsSplitsMergesAndProjects) {
  const Site site = {
      .shape = {.width = 6, .heads = 2, .head_width = 5}, .init = "xavier", .seed = 1};
  auto echo = std::make_shared<Echo>();
  const auto mixer = multi_head(site, echo);
  const auto p = mixer->named_parameters();
  Context context;
  const auto x = random_normal({3, 4, 6}, 1).to(at::kFloat);
  const auto y = (*mixer)(x, context);
  EXPECT_NEAR_TENSOR(echo->last.q,
                     split_heads(at::linear(x, p["query.weight"], p["query.bias"]), 2),
                     tolerance(at::kFloat));
  EXPECT_EQ(echo->last.k.sizes(), (at::IntArrayRef{3, 2, 4, 5}));
  EXPECT_TRUE(echo->last.x.is_same(echo->last.source));
  const auto values =
      at::linear(x, p["value.weight"], p["value.bias"]).mean(1, true).expand({3, 4, 10});
  EXPECT_NEAR_TENSOR(y, at::linear(values, p["output.weight"], p["output.bias"]),
                     tolerance(at::kFloat));
}

TEST(MultiHead, ReadsAMemoryOfAnotherLengthAndWidth) {
  Site site = {.shape = {.width = 6, .heads = 2, .memory_width = 4}, .init = "xavier", .seed = 1};
  site.cross = true;
  auto echo = std::make_shared<Echo>();
  const auto mixer = multi_head(site, echo);
  mixer->label({"echo", {.cross = true}, {}});
  Context context = {.memory = random_normal({3, 7, 4}, 2).to(at::kFloat)};
  EXPECT_EQ((*mixer)(at::ones({3, 5, 6}), context).sizes(), (at::IntArrayRef{3, 5, 6}));
  EXPECT_EQ(echo->last.k.sizes(), (at::IntArrayRef{3, 2, 7, 3}));
}

// Keeps the mean of a memory's real values, and gives it to every query.
class Packing : public AttentionImpl {
 public:
  Tensor attend(const Heads& heads, Context& context) override {
    return heads.q * 0 + mean(heads, context.mask.keep);
  }
  bool open_memory(State& state, const Heads& memory, const Context& context) override {
    EXPECT_FALSE(context.mask.causal);
    EXPECT_TRUE(memory.source.is_same(context.memory));
    state.lane["mean"] = mean(memory, context.mask.keep);
    state.fill["mean"] = 0;
    return true;
  }
  Tensor read_memory(const Heads& queries, State& state, Context& context) override {
    EXPECT_FALSE(context.memory.defined());
    return queries.q * 0 + state.lane.at("mean");
  }

 private:
  static Tensor mean(const Heads& heads, const Tensor& keep) {
    const auto real = keep.unsqueeze(1).unsqueeze(-1).to(heads.v.scalar_type());
    return (heads.v * real).sum(2, true) / real.sum(2, true);
  }
};

TEST(MultiHead, WhatIsMadeOfAMemoryIsAllThatExtensionsRead) {
  Site site = {.shape = {.width = 6, .heads = 2, .memory_width = 4}, .init = "xavier", .seed = 1};
  site.cross = true;
  const auto mixer = multi_head(site, std::make_shared<Packing>());
  mixer->label({"packing", {.future = Future::exact, .cross = true, .decode = true}, {}});
  const auto memory = random_normal({3, 7, 4}, 2).to(at::kFloat),
             x = random_normal({3, 5, 6}, 3).to(at::kFloat);
  const auto keep = Mask::from_lengths(at::tensor({7, 2, 4}, at::kLong), 7).keep;
  Context whole = {.mask = {.keep = keep}, .memory = memory};
  Context opening = {.mask = {.causal = true, .keep = keep}, .memory = memory};
  const auto want = (*mixer)(x, whole);
  State state;
  mixer->start(state, 3, 5, opening);
  EXPECT_TRUE(state.lane.empty()) << "neither keys nor values are kept";
  Context growing;
  const auto y = at::cat({mixer->extend(x.narrow(1, 0, 4), state, growing),
                          mixer->extend(x.narrow(1, 4, 1), state, growing)},
                         1);
  EXPECT_NEAR_TENSOR(y, want, tolerance(at::kFloat));
  state.reorder(at::tensor({2, 2}, at::kLong));
  EXPECT_EQ(state.child.at("memory").lane.at("mean").size(0), 2);
}

TEST(MultiHead, TurnsQueriesAndKeysWhereTheSiteSaysSo) {
  Site site = {.shape = {.width = 6, .heads = 2, .head_width = 4}, .init = "xavier", .seed = 1};
  const auto plain = std::make_shared<Echo>(), turned = std::make_shared<Echo>();
  const auto without = multi_head(site, plain);
  site.rotary = Rotary{.base = 100};
  const auto with = multi_head(site, turned);
  for (const auto& mixer : {without, with}) mixer->label({"echo", {.cross = true}, {}});
  const auto x = random_normal({3, 4, 6}, 1).to(at::kFloat);
  const auto compare = [&](Context context, const Tensor& positions) {
    (void)(*without)(x, context);
    (void)(*with)(x, context);
    EXPECT_NEAR_TENSOR(turned->last.q, (*site.rotary)(plain->last.q, positions), kExact);
    EXPECT_NEAR_TENSOR(turned->last.k, (*site.rotary)(plain->last.k, positions), kExact);
    EXPECT_NEAR_TENSOR(turned->last.v, plain->last.v, kExact);
  };
  compare({}, at::arange(4).unsqueeze(0));
  const auto positions = at::tensor({7, 8, 9, 10, 0, 1, 2, 3, 5, 4, 3, 2}, at::kLong).view({3, 4});
  compare({.positions = positions}, positions);
  EXPECT_GT((turned->last.q - plain->last.q).abs().max().item<double>(), 1e-2);
  Context crossing = {.memory = random_normal({3, 7, 6}, 2).to(at::kFloat)};
  EXPECT_NEAR_TENSOR((*with)(x, crossing), (*without)(x, crossing), kExact);
  EXPECT_NEAR_TENSOR(turned->last.k, plain->last.k, kExact);
}

TEST(MultiHead, HasBiasesOnlyWhereTheSiteSaysSo) {
  Site site = {.shape = {.width = 6, .heads = 2}, .seed = 1};
  EXPECT_EQ(multi_head(site, std::make_shared<Echo>())->parameters().size(), 8u);
  site.bias = false;
  EXPECT_EQ(multi_head(site, std::make_shared<Echo>())->parameters().size(), 4u);
}

// The queries, merged again.
class Passing : public ProjectedMixer {
 public:
  Passing(const Site& site, const Output& output) : ProjectedMixer(site, output) {}

 protected:
  Tensor mix(const Tensor& x, Context&) override {
    return merged(split_heads((*query_)(x), heads_));
  }
};

TEST(ProjectedMixer, TheOutputGoesThroughAnotherWidthOrIsLeftOut) {
  const Site site = {.shape = {.width = 6, .heads = 2, .head_width = 5}, .init = "xavier"};
  const auto x = random_normal({3, 4, 6}, 1).to(at::kFloat);
  Context context;
  Passing narrow(site, {.rank = 2});
  auto p = narrow.named_parameters();
  EXPECT_EQ(p["output_in.weight"].sizes(), (at::IntArrayRef{2, 10}));
  const auto q = at::linear(x, p["query.weight"]);
  const auto both = p["output.weight"].matmul(p["output_in.weight"]);
  EXPECT_NEAR_TENSOR(narrow(x, context), at::linear(q, both), tolerance(at::kFloat));

  Site square = site;
  square.shape.head_width = 3;
  Passing bare(square, {.projected = false});
  p = bare.named_parameters();
  EXPECT_FALSE(p.contains("output.weight"));
  EXPECT_NEAR_TENSOR(bare(x, context), at::linear(x, p["query.weight"]), tolerance(at::kFloat));
}

TEST(ProjectedMixer, RefusesAnOutputThatCannotBe) {
  const Site site = {.shape = {.width = 6, .heads = 2, .head_width = 5}};
  EXPECT_EQ(error_of([&] { Passing(site, {.projected = false}); }),
            "without an output projection 2 heads of width 5 must make up the model width 6");
  EXPECT_EQ(error_of([&] {
              Passing({.shape = {.width = 6, .heads = 2}}, {.rank = 3, .projected = false});
            }),
            "an output projection in two steps cannot be left out");
}

}  // namespace
}  // namespace longbow
