#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

bool has(const torch::nn::Module& mixer, const std::string& name) {
  return mixer.named_parameters().contains(name);
}

// y_(s,m) = sum_i x_i D_si E_im + b, module by module.
Tensor multiplicative(const torch::nn::Module& mixer, const std::string& name, const Tensor& x) {
  const auto d = oracle::tensor_of(mixer, name + ".modules"),
             e = oracle::tensor_of(mixer, name + ".channels");
  std::vector<Tensor> modules;
  for (int64_t s = 0; s < d.size(0); ++s) modules.push_back((x * d[s]).matmul(e));
  const auto y = at::cat(modules, -1);
  return has(mixer, name + ".bias") ? y + oracle::tensor_of(mixer, name + ".bias") : y;
}

// Tap by tap: position t + f - before, module s + a - across / 2, where both exist.
Tensor convolved(const torch::nn::Module& mixer, const std::string& name, const Tensor& u,
                 int64_t modules, bool causal) {
  const auto w = oracle::tensor_of(mixer, name + ".weight");  // [M, M, F, A]
  const int64_t n = u.size(1), length = w.size(2), across = w.size(3);
  const int64_t before = causal ? length - 1 : (length - 1) / 2;
  const auto image = u.unflatten(-1, {modules, -1});  // [B, N, S, M]
  auto y = at::zeros_like(image);
  for (int64_t t = 0; t < n; ++t)
    for (int64_t s = 0; s < modules; ++s)
      for (int64_t f = 0; f < length; ++f)
        for (int64_t a = 0; a < across; ++a) {
          const int64_t from = t + f - before, module = s + a - across / 2;
          if (from < 0 || from >= n || module < 0 || module >= modules) continue;
          const auto tap = w.select(3, a).select(2, f);
          y.select(2, s).select(1, t).add_(image.select(2, module).select(1, from).matmul(tap.t()));
        }
  if (has(mixer, name + ".bias")) y = y + oracle::tensor_of(mixer, name + ".bias");
  return y.flatten(-2);
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const bool shared =
      as_string(*options.find("projections"), "projections") == "multiplicative_conv";
  Tensor parts[3];
  const char* const names[] = {"query", "key", "value"};
  for (int i = 0; i < 3; ++i) {
    auto y = multiplicative(mixer, shared ? "shared" : names[i], x);
    if (shared)
      y = convolved(mixer, names[i], oracle::without_padding(y, context),
                    oracle::tensor_of(mixer, "shared.modules").size(0), context.mask.causal);
    parts[i] = split_heads(y, site.shape.heads);
  }
  const auto visible = oracle::visible(context, x.size(0), x.size(1), x.size(1));
  auto y = merge_heads(oracle::softmax(parts[0], parts[1], parts[2], visible));
  if (has(mixer, "output.weight"))
    y = y.matmul(oracle::tensor_of(mixer, "output.weight").t()) +
        oracle::tensor_of(mixer, "output.bias");
  return oracle::without_padding(y, context);
}

const bool registered = oracle::add("scaling", dense);

Site site(int64_t width = 12, int64_t heads = 2) {
  return {.shape = {.width = width, .heads = heads, .max_length = 16}, .init = "xavier"};
}

TEST(Scaling, ModulesAreTheDivisorNearestToTheRoot) {
  const std::pair<int64_t, int64_t> expected[] = {{12, 3}, {64, 8}, {512, 16}, {7, 1}};
  for (const auto& [width, modules] : expected) {
    const auto mixer = make_mixer("scaling", site(width, 1));
    EXPECT_EQ(mixer->named_parameters()["shared.modules"].size(0), modules) << width;
    EXPECT_EQ(mixer->named_parameters()["shared.channels"].size(1), width / modules) << width;
  }
}

TEST(Scaling, AMultiplicativeLayerCanBeAnyPermutation) {
  auto mixer = make_mixer("scaling", site(6, 1), "{projections: multiplicative, modules: 2}");
  mixer->to(at::kDouble);
  const at::NoGradGuard no_grad;
  const int64_t order[] = {4, 1, 5, 0, 3, 2};
  auto d = mixer->named_parameters()["value.modules"],
       e = mixer->named_parameters()["value.channels"];
  d.zero_();
  e.zero_();
  for (int64_t out = 0; out < 6; ++out) {
    d[out / 3][order[out]] = 1;
    e[order[out]][out % 3] = 1;
  }
  const auto x = random_normal({1, 1, 6}, 2);  // one token: attention gives its value
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), x.index_select(2, at::tensor({4, 1, 5, 0, 3, 2})),
                     tolerance(at::kDouble));
}

TEST(Scaling, OneTapIsOneDenseMatrixForAllModules) {
  auto mixer = make_mixer("scaling", site(), "{length: 1, across: 1, modules: 3}");
  mixer->to(at::kDouble);
  const auto x = random_normal({1, 1, 12}, 2);
  Context context;
  const auto p = mixer->named_parameters();
  const auto u = multiplicative(*mixer, "shared", x).view({1, 1, 3, 4});
  const auto want =
      u.matmul(p["value.weight"].view({4, 4}).t()) + p["value.bias"].view({1, 1, 1, 4});
  EXPECT_NEAR_TENSOR((*mixer)(x, context), want.flatten(-2), tolerance(at::kDouble));
}

TEST(Scaling, HasFarFewerParametersThanDenseProjections) {
  const auto count = [](const std::string& name, const std::string& options) {
    int64_t sum = 0;
    for (const auto& p : make_mixer(name, site(256, 4), options)->parameters()) sum += p.numel();
    return sum;
  };
  EXPECT_LT(count("scaling", "") * 10, count("softmax", ""));
}

TEST(Scaling, ItsBlockFeedsForwardSparselyUnlessTold) {
  BlockConfig config;
  config.feed_forward.sparse.group = 4;
  const auto names = [&](const std::string& options) {
    return make_block(parse_yaml(options, "test"), site(), config)->named_parameters();
  };
  EXPECT_TRUE(names("{name: scaling}").contains("feed_forward.choose.weight"));
  EXPECT_FALSE(
      names("{name: scaling, sparse_feed_forward: false}").contains("feed_forward.choose.weight"));
}

}  // namespace
}  // namespace longbow
