#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/join_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Results and gradients for numbers that were rounded to a type.
std::vector<Tensor> joined(at::IntArrayRef shape, int64_t spread, at::ScalarType rounded,
                           at::ScalarType computed, at::Device device) {
  auto rows = shape.vec(), others = shape.vec();
  others[2] = (shape[2] + spread - 1) / spread + (spread > 1 ? 1 : 0);
  rows.back() = 1;
  auto other_rows = others;
  other_rows.back() = 1;
  const auto rounds = [&](const Tensor& x) { return x.to(rounded).to(device, computed); };
  const auto sums = [&](at::IntArrayRef of, uint64_t seed) {  // some parts saw nothing
    const auto x = random_normal(of, seed);
    return x.masked_fill(x > 1, -INFINITY)
        .to(device, computed == at::kDouble ? at::kDouble : at::kFloat)
        .requires_grad_();
  };
  const auto a = rounds(random_normal(shape, 1)).requires_grad_(),
             b = rounds(random_normal(others, 2)).requires_grad_(), log_a = sums(rows, 3),
             log_b = sums(other_rows, 4);
  const auto y = join_softmax({a, log_a}, {b, log_b}, spread);
  auto found = torch::autograd::grad(
      {y.out, y.log_sum}, {a, log_a, b, log_b},
      {rounds(random_normal(shape, 5)), random_normal(rows, 6).to(log_a.options())});
  found.insert(found.begin(), {y.out.detach(), y.log_sum.detach()});
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

TEST(JoinSoftmaxCuda, IsTheFormulaForAllWidthsAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 8e-3}, {at::kHalf, 1e-3}})
    for (const int64_t width : {8, 24, 64, 128, 256, 12, 264})
      for (const auto& [tokens, spread] : {std::pair{1, 1}, {7, 1}, {100, 1}, {7, 2}, {99, 2}}) {
        SCOPED_TRACE(c10::str(tokens, " x ", width, " ", type, ", spread by ", spread));
        const std::vector<int64_t> shape = {2, 3, tokens, width};
        const auto got = joined(shape, spread, type, type, at::Device("cuda:0")),
                   want = joined(shape, spread, type, at::kDouble, at::kCPU);
        for (size_t i = 0; i < got.size(); ++i) {
          const auto none = want[i].isneginf();
          EXPECT_TRUE(at::equal(got[i].isneginf(), none)) << i;
          EXPECT_NEAR_TENSOR(got[i].masked_fill(none, 0), want[i].masked_fill(none, 0),
                             (Tolerance{error, error}))
              << i;
        }
      }
}

TEST(JoinSoftmaxCuda, ReadsPartsOfLongerSums) {
  const at::Device device("cuda:0");
  const auto rows = [&](uint64_t seed) {
    return random_normal({2, 3, 50, 16}, seed).to(device, at::kBFloat16);
  };
  const auto sums = [&](uint64_t seed) {
    return random_normal({2, 3, 50, 1}, seed).to(device, at::kFloat);
  };
  const auto found = [&](bool whole) {
    const auto some = [&](const Tensor& x, int64_t first, int64_t count) {
      const auto part = x.narrow(2, first, count);
      return (whole ? part.contiguous() : part).detach().requires_grad_();
    };
    const std::vector<Tensor> leaves = {some(rows(1), 7, 20), some(sums(2), 7, 20),
                                        some(rows(3), 30, 11), some(sums(4), 30, 11)};
    const auto y = join_softmax({leaves[0], leaves[1]}, {leaves[2], leaves[3]}, 2);
    auto all = torch::autograd::grad({y.out, y.log_sum}, leaves,
                                     {rows(5).narrow(2, 0, 20), sums(6).narrow(2, 0, 20)});
    all.push_back(y.out.detach());
    all.push_back(y.log_sum.detach());
    return all;
  };
  const auto got = found(false), want = found(true);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
}

// The stride of a dimension of size 1 says nothing.
TEST(JoinSoftmaxCuda, ReadsSumsOfOneHeadAsTheyLie) {
  const at::Device device("cuda:0");
  const auto rows = [&](uint64_t seed) {
    return random_normal({2, 1, 20, 16}, seed).to(device, at::kBFloat16);
  };
  const auto found = [&](bool by_token) {
    const auto sums = [&](uint64_t seed) {
      const auto x = random_normal({2, 20, 1, 1}, seed).to(device, at::kFloat);
      return by_token ? x.transpose(1, 2) : x.view({2, 1, 20, 1});
    };
    const std::vector<Tensor> leaves = {rows(1).requires_grad_(), sums(2).requires_grad_(),
                                        rows(3).requires_grad_(), sums(4).requires_grad_()};
    const auto y = join_softmax({leaves[0], leaves[1]}, {leaves[2], leaves[3]});
    auto all = torch::autograd::grad({y.out, y.log_sum}, leaves, {rows(5), sums(6)});
    all.push_back(y.out.detach());
    all.push_back(y.log_sum.detach());
    return all;
  };
  const auto got = found(true), want = found(false);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
}

// Sums that all heads share have no kernel.
TEST(JoinSoftmaxCuda, TakesSumsOfAllHeads) {
  const at::Device device("cuda:0");
  const auto rows = [](uint64_t seed) {
    return random_normal({2, 3, 20, 16}, seed).to(at::kBFloat16);
  };
  const auto sums = [](uint64_t seed) { return random_normal({2, 1, 20, 1}, seed).to(at::kFloat); };
  const auto there = [&](const SoftmaxPart& x) {
    return SoftmaxPart{x.out.to(device), x.log_sum.to(device)};
  };
  const SoftmaxPart a = {rows(1), sums(2)}, b = {rows(3), sums(4)};
  const auto got = join_softmax(there(a), there(b)), want = join_softmax(a, b);
  EXPECT_TRUE(got.out.cpu().equal(want.out));
  EXPECT_TRUE(got.log_sum.cpu().equal(want.log_sum));
}

}  // namespace
}  // namespace longbow
