#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const bool registered =
    oracle::add("none", [](const torch::nn::Module&, const Node&, const Site&, const Tensor& x,
                           const Context&) { return at::zeros_like(x); });

TEST(None, ItsBlockIsTheFeedForwardLayerAlone) {
  const Site site = {.shape = {.width = 6, .max_length = 8}, .path = "layers.0", .init = "xavier"};
  const auto node = parse_yaml("{name: none}", "test");
  const auto block = make_block(node, site, {.feed_forward = {.width = 9}});
  const auto p = block->named_parameters();
  EXPECT_EQ(p.find("mixer_norm.weight"), nullptr);
  const auto x = random_normal({2, 5, 6}, 1).to(at::kFloat);
  const auto up =
      at::linear(at::layer_norm(x, {6}), p["feed_forward.up.weight"], p["feed_forward.up.bias"]);
  const auto want =
      x + at::linear(at::gelu(up), p["feed_forward.down.weight"], p["feed_forward.down.bias"]);
  Context context;
  EXPECT_NEAR_TENSOR(block->forward(x, context), want, tolerance(at::kFloat));
  State state;
  block->start(state, 2, 5, context);
  EXPECT_NEAR_TENSOR(block->extend(x, state, context), want, tolerance(at::kFloat));
}

TEST(None, NoTokenSeesAnother) {
  const Site site = {.shape = {.width = 6, .max_length = 8}, .init = "xavier"};
  const auto block = make_block(parse_yaml("{name: none}", "test"), site, {});
  auto x = random_normal({1, 5, 6}, 1).to(at::kFloat);
  Context context;
  const auto before = block->forward(x, context);
  x.select(1, 2).add_(1);
  const auto after = block->forward(x, context);
  for (int64_t t = 0; t < 5; ++t)
    EXPECT_EQ(at::equal(before.select(1, t), after.select(1, t)), t != 2) << t;
}

TEST(None, HasNoOptions) {
  EXPECT_EQ(error_of([] { make_mixer("none", {.shape = {.width = 6}}, "{rank: 3}"); }),
            "none options:1: unknown key 'rank'");
}

}  // namespace
}  // namespace longbow
