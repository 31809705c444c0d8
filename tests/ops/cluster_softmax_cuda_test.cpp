#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/cluster_problems.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");
constexpr double kScale = 0.25;

// The result and gradients of numbers that were rounded to a type, for given chosen keys.
std::vector<Tensor> results(const ClusterProblem& p, const Tensor& top, at::ScalarType rounded,
                            at::ScalarType computed, at::Device device) {
  const auto rounds = [&](const Tensor& x) { return x.to(rounded).to(device, computed); };
  const auto q = rounds(p.q()).requires_grad_(), k = rounds(p.k()).requires_grad_(),
             v = rounds(p.v()).requires_grad_();
  const auto keep = p.padded ? p.keep().to(device) : Tensor();
  if (computed != at::kDouble)
    EXPECT_EQ(has_cluster_kernel(q, k, v, p.clusters, top.size(3)),
              p.clusters <= 128 && top.size(3) <= 64 && p.width % 8 == 0);
  const auto y = cluster_softmax(q, k, v, cluster_members(p.cluster().to(device), p.clusters),
                                 top.to(device), keep, kScale);
  auto found = torch::autograd::grad({y}, {q, k, v}, {rounds(p.dout())});
  found.push_back(y.detach());
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

Tensor keys_of(const ClusterProblem& p, at::ScalarType type, at::Device device) {
  const auto keep = p.padded ? p.keep().to(device) : Tensor();
  return cluster_keys(p.q().to(device, type), p.k().to(device, type),
                      cluster_members(p.cluster().to(device), p.clusters), keep, p.top, kScale)
      .cpu();
}

const std::vector<ClusterProblem> kProblems = {
    {.queries = 200, .keys = 300, .clusters = 10, .top = 32, .width = 64, .value_width = 64},
    {.queries = 150,
     .keys = 64,
     .clusters = 5,
     .top = 7,
     .width = 16,
     .value_width = 24,
     .padded = true},
    {.queries = 500,
     .keys = 501,
     .clusters = 100,
     .top = 20,
     .width = 64,
     .value_width = 64,
     .padded = true},
    {.queries = 1, .keys = 3, .clusters = 1, .top = 2, .width = 8, .value_width = 8},
    {.queries = 130, .keys = 1100, .clusters = 2, .top = 64, .width = 40, .value_width = 64},
    {.queries = 70, .keys = 33, .clusters = 128, .top = 50, .width = 64, .value_width = 8},
    // These have no kernel.
    {.queries = 90, .keys = 80, .clusters = 129, .top = 5, .width = 16, .value_width = 16},
    {.queries = 90, .keys = 80, .clusters = 9, .top = 65, .width = 16, .value_width = 16},
    {.queries = 90, .keys = 80, .clusters = 9, .top = 5, .width = 12, .value_width = 16}};

TEST(ClusterSoftmaxCuda, IsTheFormulaForAllSizesAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 1.5e-2}, {at::kHalf, 2e-3}})
    for (const auto& p : kProblems)
      for (const bool plain : {false, true}) {
        SCOPED_TRACE(c10::str(p.queries, " by ", p.keys, " in ", p.clusters, " ", type, plain));
        auto top = keys_of(p, at::kDouble, at::kCPU);
        if (plain) top = top.narrow(3, 0, 0);
        const auto got = results(p, top, type, type, kDevice),
                   want = results(p, top, type, at::kDouble, at::kCPU);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LE((got[i] - want[i]).norm().item<double>(), error * want[i].norm().item<double>())
              << i;  // false for NaN
      }
}

// Scores in the order of the chosen; hidden keys count as -1e9.
Tensor scores_of(const ClusterProblem& p, const Tensor& top, at::ScalarType type) {
  const auto q = p.q().to(type).to(at::kDouble), k = p.k().to(type).to(at::kDouble);
  const auto members =
      (p.cluster().unsqueeze(-1) == at::arange(p.clusters)).to(at::kDouble);  // [B, H, N, C]
  const auto centres =
      members.transpose(-2, -1).matmul(q) / members.sum(2).clamp_min(1).unsqueeze(-1);
  auto scores = centres.matmul(k.transpose(-2, -1));
  if (p.padded) scores = scores.masked_fill(p.keep().logical_not().view({2, 1, 1, -1}), -1e9);
  return scores.gather(-1, top);
}

TEST(ClusterSoftmaxCuda, ChoosesKeysOfTheLargestScores) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto& p : kProblems) {
      SCOPED_TRACE(c10::str(p.queries, " by ", p.keys, " in ", p.clusters, " ", type));
      const auto got = keys_of(p, type, kDevice), want = keys_of(p, at::kDouble, at::kCPU);
      EXPECT_NEAR_TENSOR(scores_of(p, got, type), scores_of(p, want, type),
                         (Tolerance{.absolute = 0.1}));
      const auto sorted = std::get<0>(got.sort(-1));  // no key twice
      EXPECT_TRUE((sorted.diff(1, -1) > 0).all().item<bool>());
    }
}

// More equal scores than are collected at once: the first keys are chosen.
TEST(ClusterSoftmaxCuda, OfEqualKeysTheFirstAreChosen) {
  const auto q = at::ones({1, 1, 5, 8}).to(kDevice, at::kHalf);
  const auto members = cluster_members(at::zeros({1, 1, 5}, at::kLong).to(kDevice), 1);
  auto k = at::ones({1, 1, 3000, 8});
  k.select(2, 2500).fill_(2);
  const auto top = cluster_keys(q, k.to(kDevice, at::kHalf), members, {}, 5, 1).cpu().flatten();
  EXPECT_TRUE(at::equal(top, at::tensor({2500, 0, 1, 2, 3}, at::kLong)));
}

}  // namespace
}  // namespace longbow
