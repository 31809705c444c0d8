#include "longbow/ops/cluster_softmax.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/cluster_problems.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

using at::Tensor;

constexpr double kScale = 0.4;

Tensor kept(const ClusterProblem& p) {
  return p.padded ? p.keep() : at::ones({2, p.keys}, at::kBool);
}

// exp(scores) of what is seen, divided by their sum.
Tensor softmax_over(const Tensor& scores, const Tensor& seen) {
  const auto powers = scores.exp() * seen.to(scores.scalar_type());
  return powers / powers.sum().clamp_min(1e-300);
}

// The definition, query by query: cluster_keys, then cluster_softmax.
Tensor by_loops(const ClusterProblem& p, const Tensor& top) {
  const auto q = p.q(), k = p.k(), v = p.v(), z = p.cluster(), keep = kept(p);
  auto out = at::zeros({2, 3, p.queries, p.value_width}, at::kDouble);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < p.queries; ++i) {
        const auto j = z[b][h][i].item<int64_t>();
        if (j == p.clusters) continue;
        const auto mine = (z[b][h] == j).to(at::kDouble).unsqueeze(-1);
        const auto centre = (q[b][h] * mine).sum(0) / mine.sum();
        const auto shared = softmax_over(kScale * k[b][h].matmul(centre), keep[b]);
        const auto chosen = at::zeros({p.keys}, at::kDouble).index_fill(0, top[b][h][j], 1);
        const auto own =
            softmax_over(kScale * k[b][h].matmul(q[b][h][i]), keep[b].logical_and(chosen > 0));
        out[b][h][i] =
            (shared * (1 - chosen) + (shared * chosen).sum() * own).unsqueeze(0).matmul(v[b][h])[0];
      }
  return out;
}

std::vector<ClusterProblem> problems() {
  return {{},
          {.padded = true},
          {.queries = 1, .keys = 1, .clusters = 1, .top = 1},
          {.queries = 17, .keys = 3, .clusters = 9, .top = 5, .padded = true},
          {.queries = 30, .keys = 12, .clusters = 2, .top = 12, .width = 1}};
}

TEST(ClusterSoftmax, IsItsDefinition) {
  for (const auto& p : problems()) {
    const auto members = cluster_members(p.cluster(), p.clusters);
    const auto top = cluster_keys(p.q(), p.k(), members, p.keep(), p.top, kScale);
    EXPECT_EQ(top.size(3), std::min(p.top, p.keys));
    EXPECT_NEAR_TENSOR(cluster_softmax(p.q(), p.k(), p.v(), members, top, p.keep(), kScale),
                       by_loops(p, top), tolerance(at::kDouble));
    const auto none = top.narrow(3, 0, 0);
    EXPECT_NEAR_TENSOR(cluster_softmax(p.q(), p.k(), p.v(), members, none, p.keep(), kScale),
                       by_loops(p, none), tolerance(at::kDouble));
  }
}

TEST(ClusterSoftmax, HasTheGradientOfItsFormula) {
  for (const auto& p : problems()) {
    const auto members = cluster_members(p.cluster(), p.clusters);
    const auto top = cluster_keys(p.q(), p.k(), members, p.keep(), p.top, kScale);
    const auto q = p.q().requires_grad_(), k = p.k().requires_grad_(), v = p.v().requires_grad_();
    const auto gradients = [&](const auto& f) {
      return torch::autograd::grad({f(q, k, v, members, top, p.keep(), kScale)}, {q, k, v},
                                   {p.dout()});
    };
    const auto got = gradients(cluster_softmax), want = gradients(cluster_softmax_formula);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  }
}

TEST(ClusterSoftmax, KeysAreThoseThatWeighMost) {
  const ClusterProblem p = {.queries = 6, .keys = 9, .clusters = 1, .top = 4, .padded = true};
  const auto members = cluster_members(at::zeros({2, 3, 6}, at::kLong), 1);
  const auto top = cluster_keys(p.q(), p.k(), members, p.keep(), 4, kScale);
  const auto scores = p.q().mean(2, true).matmul(p.k().transpose(-2, -1))[0];
  const auto seen = scores.masked_fill(p.keep()[0].logical_not(), -1e9);
  EXPECT_TRUE(at::equal(top[0], std::get<1>(seen.topk(4, -1))));
}

TEST(ClusterSoftmax, MembersStandBesideEachOther) {
  const auto members = cluster_members(at::tensor({2, 0, 3, 0, 2}, at::kLong).view({1, 1, 5}), 3);
  EXPECT_TRUE(at::equal(members.order.flatten(), at::tensor({1, 3, 0, 4, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(members.first.flatten(), at::tensor({0, 2, 2, 4}, at::kLong)));
}

TEST(ClusterSoftmax, IsRegistered) {
  EXPECT_EQ(missing_kernels("cluster_keys", /*differentiable=*/false), "");
  EXPECT_EQ(missing_kernels("cluster_softmax"), "");
  EXPECT_EQ(missing_kernels("cluster_softmax_backward"), "");
}

TEST(ClusterSoftmax, HasNoSecondDerivative) {
  const ClusterProblem p;
  const auto members = cluster_members(p.cluster(), p.clusters);
  const auto q = p.q().requires_grad_();
  const auto y = cluster_softmax(q, p.k(), p.v(), members,
                                 cluster_keys(q, p.k(), members, {}, 3, kScale), {}, kScale);
  EXPECT_NE(error_of([&] {
              torch::autograd::grad({y}, {q}, {p.dout()}, true, /*create_graph=*/true);
            }).find("cluster_softmax has no second derivative"),
            std::string::npos);
}

TEST(ClusterSoftmax, NamesWhatDoesNotFit) {
  const ClusterProblem p;
  const auto q = p.q(), k = p.k(), v = p.v();
  const auto members = cluster_members(p.cluster(), p.clusters);
  const auto top = cluster_keys(q, k, members, {}, 3, kScale);
  const auto expect = [](const std::string& what, const std::function<void()>& f) {
    EXPECT_NE(error_of(f).find(what), std::string::npos) << error_of(f);
  };
  expect("cluster_members: cluster is [4] of 2",
         [&] { cluster_members(at::zeros({4}, at::kLong), 2); });
  expect("cluster_keys: q is [2, 3, 7, 6], k [2, 3, 15, 6], clusters [2, 3, 20]",
         [&] { cluster_keys(q.narrow(2, 0, 7), k, members, {}, 3, kScale); });
  expect("cluster_keys: keep is [2, 4], but k is [2, 3, 15, 6]", [&] {
    cluster_keys(q, k, members, at::ones({2, 4}, at::kBool), 3, kScale);
  });
  expect("cluster_keys: 0 keys of each cluster",
         [&] { cluster_keys(q, k, members, {}, 0, kScale); });
  expect("cluster_softmax: k is [2, 3, 15, 6], v [2, 3, 4, 5], top [2, 3, 4, 3] for 4 clusters",
         [&] { cluster_softmax(q, k, v.narrow(2, 0, 4), members, top, {}, kScale); });
}

}  // namespace
}  // namespace longbow
