#include "longbow/models/perceiver/cross_layer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const Tolerance kTight = {1e-12, 1e-12};

Site site_with(int64_t width, int64_t heads, int64_t head_width = 0) {
  return {.shape = {.width = width, .heads = heads, .head_width = head_width, .max_length = 32},
          .path = "cross",
          .init = "xavier",
          .seed = 3};
}

std::shared_ptr<CrossLayer> layer(const Site& site, int64_t source, const BlockConfig& block = {},
                                  bool adds = true) {
  auto made = std::make_shared<CrossLayer>(site, source, block, adds);
  const at::NoGradGuard no_grad;
  uint64_t seed = 40;
  for (auto& parameter : made->parameters())  // biases and norms that are not trivial
    if (parameter.dim() == 1) parameter.add_(random_normal(parameter.sizes(), ++seed) * 0.3);
  made->to(at::kDouble);
  made->eval();
  return made;
}

Tensor run(const CrossLayer& cross, const Tensor& z, const Tensor& x, const Tensor& visible = {}) {
  Context context;
  return cross(z, cross.source(x), visible, context);
}

Tensor named(const CrossLayer& cross, const std::string& name) {
  return cross.named_parameters()[name].detach();
}

Tensor normed(const CrossLayer& cross, const std::string& name, const Tensor& x) {
  const auto centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() *
             named(cross, name + ".weight") +
         named(cross, name + ".bias");
}

Tensor affine(const CrossLayer& cross, const std::string& name, const Tensor& x) {
  return x.matmul(named(cross, name + ".weight").t()) + named(cross, name + ".bias");
}

// Head by head and row by row.
Tensor oracle(const CrossLayer& cross, const Tensor& z, const Tensor& x, int64_t heads) {
  const auto q = affine(cross, "query", normed(cross, "norm", z));
  const auto rows = normed(cross, "source_norm", x);
  const auto k = affine(cross, "key", rows), v = affine(cross, "value", rows);
  const int64_t width = q.size(-1) / heads;
  std::vector<Tensor> read;
  for (int64_t h = 0; h < heads; ++h) {
    const auto of = [&](const Tensor& t) { return t.narrow(-1, h * width, width); };
    const auto scores = of(q).matmul(of(k).transpose(-2, -1)) / std::sqrt(double(width));
    read.push_back(scores.softmax(-1).matmul(of(v)));
  }
  const auto y = z + affine(cross, "output", at::cat(read, -1));
  const auto inner = affine(cross, "feed_forward.up", normed(cross, "feed_forward_norm", y));
  return y + affine(cross, "feed_forward.down", inner / 2 * (1 + (inner / std::sqrt(2.0)).erf()));
}

TEST(CrossLayer, IsTheFormula) {
  const at::NoGradGuard no_grad;
  for (const auto& [heads, head_width] : {std::pair{1, 0}, {3, 0}, {2, 5}}) {
    const auto cross = layer(site_with(12, heads, head_width), 7);
    const auto z = random_normal({2, 4, 12}, 1), x = random_normal({2, 9, 7}, 2);
    EXPECT_NEAR_TENSOR(run(*cross, z, x), oracle(*cross, z, x, heads), kTight) << heads;
  }
}

// Queries that are the tokens themselves, read with one norm: a block of ordinary attention.
TEST(CrossLayer, TokensThatReadThemselvesAreAnOrdinaryBlock) {
  const at::NoGradGuard no_grad;
  const auto cross = layer(site_with(12, 3), 12);
  auto site = site_with(12, 3);
  const auto block = make_block(Node::string("softmax"), site, {});
  block->to(at::kDouble);
  block->eval();
  const auto ours = cross->named_parameters();
  for (const std::string end : {".weight", ".bias"})
    ours["source_norm" + end].copy_(ours["norm" + end]);
  for (const auto& entry : block->named_parameters()) {
    auto name = entry.key();
    if (name.starts_with("mixer_norm")) name = name.substr(6);
    if (name.starts_with("mixer.")) name = name.substr(6);
    Tensor(entry.value()).copy_(ours[name]);
  }
  const auto x = random_normal({2, 9, 12}, 2);
  Context plain, causal = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR(run(*cross, x, x), block->forward(x, plain), kTight);
  const auto past = at::ones({9, 9}, at::kBool).tril().view({1, 1, 9, 9});
  EXPECT_NEAR_TENSOR(run(*cross, x, x, past), block->forward(x, causal), kTight);
}

TEST(CrossLayer, HiddenRowsAreNotRead) {
  const at::NoGradGuard no_grad;
  const auto cross = layer(site_with(8, 2), 6);
  const auto z = random_normal({2, 3, 8}, 1), x = random_normal({2, 7, 6}, 2);
  const auto keep = at::tensor({1, 0, 1, 1, 0, 0, 1}, at::kLong).to(at::kBool);
  const auto some = x.index_select(1, keep.nonzero().flatten());
  EXPECT_NEAR_TENSOR(run(*cross, z, x, keep.view({1, 1, 1, 7}).expand({2, 1, 1, 7})),
                     run(*cross, z, some), kTight);
}

TEST(CrossLayer, ARowThatSeesNothingReadsZero) {
  const auto cross = layer(site_with(8, 2), 6, {.feed_forward = {.kind = FeedForwardKind::none}});
  const auto z = random_normal({2, 3, 8}, 1);
  auto x = random_normal({2, 7, 6}, 2).requires_grad_();
  auto visible = at::ones({2, 1, 3, 7}, at::kBool);
  visible[1][0][2].fill_(false);
  const auto y = run(*cross, z, x, visible);
  EXPECT_NEAR_TENSOR(y[1][2], z[1][2], kExact);
  EXPECT_FALSE(at::equal(y[1][1], z[1][1]));
  y[1][2].sum().backward();
  EXPECT_NEAR_TENSOR(x.grad(), at::zeros_like(x), kExact);
}

TEST(CrossLayer, QueriesNeedNotBeAPartOfWhatTheyRead) {
  const at::NoGradGuard no_grad;
  const BlockConfig block = {.feed_forward = {.kind = FeedForwardKind::none}};
  const auto adding = layer(site_with(8, 2), 6, block),
             plain = layer(site_with(8, 2), 6, block, false);
  const auto z = random_normal({2, 3, 8}, 1), x = random_normal({2, 7, 6}, 2);
  EXPECT_NEAR_TENSOR(run(*adding, z, x), z + run(*plain, z, x), kTight);
}

TEST(CrossLayer, MapsAreTheWeightsItReadsWith) {
  const at::NoGradGuard no_grad;
  const auto cross = layer(site_with(8, 2), 6);
  const auto z = random_normal({2, 3, 8}, 1), x = random_normal({2, 7, 6}, 2);
  const auto visible = (at::arange(7) < 5).view({1, 1, 1, 7});
  Tensors maps;
  Context context = {.maps = &maps};
  const auto y = (*cross)(z, cross->source(x), visible, context);
  EXPECT_NEAR_TENSOR(y, run(*cross, z, x, visible), kTight);
  ASSERT_EQ(maps.size(), 1u);
  const auto& map = maps.at("cross");
  ASSERT_EQ(map.sizes(), (at::IntArrayRef{2, 2, 3, 7}));
  EXPECT_NEAR_TENSOR(map.narrow(3, 0, 5).sum(-1), at::ones({2, 2, 3}, at::kDouble), kTight);
}

TEST(CrossLayer, DropoutIsThatOfTheBlock) {
  const auto cross = layer(site_with(8, 2), 6, {.dropout = 0.5});
  cross->train();
  const auto z = random_normal({2, 3, 8}, 1), x = random_normal({2, 7, 6}, 2);
  const auto at_step = [&](int64_t step) {
    Context context = {.random = Random::from_seed(1, step)};
    return (*cross)(z, cross->source(x), {}, context);
  };
  EXPECT_NEAR_TENSOR(at_step(3), at_step(3), kExact);
  EXPECT_FALSE(at::equal(at_step(3), at_step(4)));
}

TEST(CrossLayer, HeadsMustDivideTheWidth) {
  EXPECT_EQ(error_of([] { layer(site_with(8, 3), 6); }),
            "cross-attention: width 8 is not a multiple of 3 heads");
}

}  // namespace
}  // namespace longbow
