#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor normed(const torch::nn::Module& mixer, const std::string& name, const Tensor& x) {
  if (!mixer.named_parameters().contains(name + ".weight")) return x;
  return at::layer_norm(x, {x.size(2)}, oracle::tensor_of(mixer, name + ".weight"),
                        oracle::tensor_of(mixer, name + ".bias"));
}

// MAB(x, y), head by head; `visible` [B, M] of 0 and 1.
Tensor block(const torch::nn::Module& mixer, const std::string& name, const std::string& style,
             int64_t heads, const Tensor& x, const Tensor& y, const Tensor& visible) {
  const auto projected = [&](const Tensor& t, const std::string& layer) {
    return t.matmul(oracle::tensor_of(mixer, name + layer + ".weight").t()) +
           oracle::tensor_of(mixer, name + layer + ".bias");
  };
  const auto q = projected(x, "query").expand({y.size(0), -1, -1}), k = projected(y, "key"),
             v = projected(y, "value");
  const int64_t d = q.size(2) / heads;
  const double scale = std::sqrt(static_cast<double>(style == "reference" ? q.size(2) : d));
  std::vector<Tensor> read;
  for (int64_t h = 0; h < heads; ++h) {
    const auto part = [&](const Tensor& t) { return t.narrow(2, h * d, d); };
    read.push_back(oracle::weighted_mean((part(q).matmul(part(k).transpose(1, 2)) / scale).exp(),
                                         part(v), visible.unsqueeze(1)));
  }
  auto result = at::cat(read, 2);
  if (style != "reference") result = projected(result, "output");
  if (style == "plain") return result;
  result = normed(mixer, name + "read_norm", result + (style == "reference" ? q : x));
  return normed(mixer, name + "norm", result + projected(result, "feed_forward").clamp_min(0));
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto style = as_string(*options.find("style"), "style");
  const auto source = context.memory.defined() ? context.memory : x;
  const auto& keep = context.mask.keep;
  const auto visible =
      keep.defined() ? keep.to(at::kDouble) : at::ones({x.size(0), source.size(1)}, at::kDouble);
  const int64_t heads = site.shape.heads, points = as_integer(*options.find("points"), "points");
  if (points == 0)
    return oracle::without_padding(block(mixer, "read.", style, heads, x, source, visible),
                                   context);
  const auto z = block(mixer, "pack.", style, heads,
                       oracle::tensor_of(mixer, "points").unsqueeze(0), source, visible);
  const auto all = at::ones({x.size(0), points}, at::kDouble);
  return oracle::without_padding(block(mixer, "read.", style, heads, x, z, all), context);
}

const bool registered = oracle::add("set", dense);

const Site kSite = {.shape = {.width = 6, .heads = 2, .max_length = 12}, .init = "xavier"};

Mixer made(const std::string& options) {
  auto mixer = make_mixer("set", kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, const Tensor& memory = {}) {
  Context context = {.memory = memory};
  return (*mixer)(x, context);
}

TEST(Set, PlainPairsAreSoftmaxAttention) {
  const auto set = made("{points: 0, style: plain}"), softmax = make_mixer("softmax", kSite, "");
  softmax->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (auto& item : softmax->named_parameters())
    item.value().copy_(set->named_parameters()["read." + item.key()]);
  const auto x = random_normal({2, 9, 6}, 1);
  EXPECT_NEAR_TENSOR(run(set, x), run(softmax, x), tolerance(at::kDouble));
}

TEST(Set, PointsThatStandForTheTokensAreTheBlockOfPairs) {
  const auto induced = made("{points: 9, norms: false}"), pairs = made("{points: 0, norms: false}");
  const at::NoGradGuard no_grad;
  const auto x = random_normal({1, 9, 6}, 2);
  auto parameters = induced->named_parameters();
  for (auto& item : pairs->named_parameters()) item.value().copy_(parameters[item.key()]);
  // The pack adds nothing to its query, which is the point itself: Z = X.
  for (const auto& item : parameters)
    if (item.key().rfind("pack.", 0) == 0) parameters[item.key()].zero_();
  parameters["pack.query.weight"].copy_(at::eye(6));
  parameters["points"].copy_(x[0]);
  EXPECT_NEAR_TENSOR(run(induced, x), run(pairs, x), tolerance(at::kDouble));
}

TEST(Set, DoublingEveryElementOfAMemoryChangesNothing) {
  for (const std::string style : {"reference", "paper", "plain"})
    for (const std::string points : {"0", "4"}) {
      Site site = kSite;
      site.cross = true;
      auto mixer = make_mixer("set", site, "{points: " + points + ", style: " + style + "}");
      mixer->to(at::kDouble);
      const auto x = random_normal({2, 5, 6}, 3), memory = random_normal({2, 7, 6}, 4);
      EXPECT_NEAR_TENSOR(run(mixer, x, at::cat({memory, memory}, 1)), run(mixer, x, memory),
                         tolerance(at::kDouble));
    }
}

TEST(Set, ItsBlockHasNoFeedForwardLayerBesidesUnlessItIsAttentionAlone) {
  const auto layers = [](const std::string& options) {
    const auto block = make_block(parse_yaml(options, "test"), kSite, {});
    return block->named_parameters().contains("feed_forward.up.weight");
  };
  EXPECT_FALSE(layers("{name: set}"));
  EXPECT_TRUE(layers("{name: set, style: plain}"));
}

TEST(Set, WhoLooksSeesBothReadings) {
  const auto mixer = made("{points: 4}");
  const auto x = random_normal({2, 9, 6}, 5);
  Tensors maps;
  Context context = {.maps = &maps};
  EXPECT_NEAR_TENSOR((*mixer)(x, context), run(mixer, x), tolerance(at::kDouble));
  EXPECT_EQ(maps.at("pack").sizes(), (std::vector<int64_t>{2, 2, 4, 9}));
  EXPECT_EQ(maps.at("read").sizes(), (std::vector<int64_t>{2, 2, 9, 4}));
}

TEST(Set, RefusesAWidthThatItCannotDivide) {
  const Site site = {.shape = {.width = 7, .heads = 2, .head_width = 4, .max_length = 12}};
  EXPECT_EQ(error_of([&] { make_mixer("set", site, "{style: reference}"); }),
            "set options:1: set.style reference divides the width 7 among 2 heads, which leaves a "
            "rest; take a width that is a multiple of the heads, or style: paper");
  (void)make_mixer("set", site, "{style: paper}");
}

}  // namespace
}  // namespace longbow
