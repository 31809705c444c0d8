#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/ops/hamming_clusters.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// Weights [N, M] of one head, query by query, for clusters z and visible keys.
Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& z, const Tensor& visible,
                  int64_t top) {
  const int64_t n = q.size(0), m = k.size(0);
  const double scale = std::sqrt(static_cast<double>(q.size(1)));
  const auto softmax = [&](const Tensor& query, const Tensor& seen) {
    const auto e = (query.matmul(k.t()) / scale).exp() * seen;
    return e / e.sum().clamp_min(1e-300);
  };
  auto all = at::zeros({n, m}, at::kDouble);
  for (int64_t i = 0; i < n; ++i) {
    const auto mine = (z == z[i]).to(at::kDouble).unsqueeze(-1);
    const auto shared = softmax((q * mine).sum(0) / mine.sum(), visible);
    all[i] = shared;
    if (top == 0) continue;
    const auto best = std::get<1>(shared.topk(std::min(top, m)));
    const auto own = at::zeros({m}, at::kDouble).index_fill(0, best, 1);
    all[i] = shared * (1 - own) + (shared * own).sum() * softmax(q[i], visible * own);
  }
  return all;
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const int64_t clusters = as_integer(*options.find("clusters"), "clusters"),
                iterations = as_integer(*options.find("iterations"), "iterations");
  const auto planes = oracle::tensor_of(mixer, "attention.planes")[0];
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const auto real = context.memory.defined() ? context.mask.query_keep : context.mask.keep;
        const auto z = hamming_clusters(q, planes, real, clusters, iterations);
        auto y = at::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, at::kDouble);
        for (int64_t b = 0; b < q.size(0); ++b)
          for (int64_t h = 0; h < q.size(1); ++h)
            y[b][h] = weights_of(q[b][h], k[b][h], z[b][h], visible[b][0][0],
                                 as_integer(*options.find("top"), "top"))
                          .matmul(v[b][h]);
        return y;
      });
}

const bool registered = oracle::add("clustered", dense);

const Site kSite = {.shape = {.width = 6, .heads = 2, .max_length = 32}, .init = "xavier"};

Mixer made(const std::string& name, const std::string& options) {
  auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, const Tensor& clusters = {}) {
  Choices choices = {.mode = Choices::Mode::record};
  Context first = {.choices = &choices}, second = first;
  if (!clusters.defined()) return (*mixer)(x, first);
  choices.kept[".clusters"] = clusters;  // the top keys follow from them
  choices.mode = Choices::Mode::replay;
  return (*mixer)(x, second);
}

TEST(Clustered, WithAllKeysOrAClusterForEachQueryItIsSoftmaxAttention) {
  const auto x = random_normal({2, 9, 6}, 1);
  const auto softmax = made("softmax", "");
  const auto want = run(softmax, x);
  const auto share = [&](const Mixer& mixer) {
    const at::NoGradGuard no_grad;
    for (auto& item : softmax->named_parameters())
      mixer->named_parameters()[item.key()].copy_(item.value());
    return mixer;
  };
  EXPECT_NEAR_TENSOR(run(share(made("clustered", "{clusters: 2, top: 9}")), x), want,
                     tolerance(at::kDouble));
  const auto each = at::arange(9).expand({2, 2, 9});
  EXPECT_NEAR_TENSOR(run(share(made("clustered", "{clusters: 9, top: 0}")), x, each), want,
                     tolerance(at::kDouble));
  const auto equal = x.narrow(1, 0, 1).expand({2, 9, 6});
  EXPECT_NEAR_TENSOR(run(share(made("clustered", "{clusters: 3, top: 2}")), equal),
                     run(softmax, equal), tolerance(at::kDouble));
}

TEST(Clustered, OneClusterReadsTheSameForEveryToken) {
  const auto y = run(made("clustered", "{clusters: 1, top: 0}"), random_normal({2, 9, 6}, 2));
  EXPECT_NEAR_TENSOR(y, y.narrow(1, 0, 1).expand_as(y), tolerance(at::kDouble));
}

TEST(Clustered, ImprovedWeightsAreNeverFurtherFromTheExactOnes) {
  const auto q = 2 * random_normal({12, 4}, 3), k = random_normal({15, 4}, 4);
  const auto z = at::arange(12) % 3, all = at::ones({15}, at::kDouble);
  const auto exact = weights_of(q, k, at::arange(12), all, 0);
  const auto far = [&](int64_t top) {
    return (weights_of(q, k, z, all, top) - exact).abs().sum(-1);
  };
  EXPECT_TRUE((far(4) <= far(0) + 1e-12).all().item<bool>());
}

TEST(Clustered, TheHashIsDrawnAgainInTraining) {
  const auto mixer = made("clustered", "{redraw: 2}");
  const auto planes = [&] { return oracle::tensor_of(*mixer, "attention.planes").clone(); };
  std::shared_ptr<Part> attention;
  for (const auto& child : mixer->children())
    if (auto part = std::dynamic_pointer_cast<AttentionImpl>(child)) attention = part;
  const auto before = planes();
  mixer->train();
  attention->after_step(0);
  EXPECT_NEAR_TENSOR(planes(), before, kExact);
  attention->after_step(1);
  EXPECT_FALSE(planes().equal(before));
}

TEST(Clustered, IsNotCausal) {
  Context context = {.mask = {.causal = true}};
  const auto error = error_of([&] { (*made("clustered", ""))(at::zeros({1, 4, 6}), context); });
  EXPECT_EQ(error.rfind("clustered: is not causal; mechanisms that do:", 0), 0U) << error;
}

}  // namespace
}  // namespace longbow
