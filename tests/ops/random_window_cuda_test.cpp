#include "tests/ops/random_windows.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
const std::vector<std::string> kNames = {"out", "dq", "dk", "dv"};

// The definition in float64 of numbers that were rounded to bfloat16.
void expect_near_definition(WindowInputs in, bool mirrored, int64_t back, int64_t ahead,
                            const at::Tensor& keep = {}, bool causal = false) {
  SCOPED_TRACE(c10::str(in.q.sizes(), ", values of ", in.v.size(3), ", ", in.omega.size(1),
                        mirrored ? " mirrored" : "", " projections, ", back, " back, ", ahead,
                        causal ? " ahead, causal" : " ahead"));
  for (auto* t : {&in.q, &in.k, &in.v, &in.g, &in.omega}) *t = t->to(at::kBFloat16).to(at::kDouble);
  const auto how = in.way(mirrored, back, ahead, keep, causal);
  ASSERT_TRUE(has_random_window_kernel(in.q.to(kOnGpu), in.k.to(kOnGpu), in.v.to(kOnGpu), how));
  const auto want = random_window_results(in, how, at::kDouble, dense_random_window),
             got = random_window_results(in, how, kOnGpu, random_window);
  // One key is read whatever its weight: what its features add to gradients is taken out again.
  const bool one_key = in.k.size(2) == 1;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LT(roundings(got[i], want[i], one_key), one_key ? 64 : 8) << kNames[i];
}

TEST(RandomWindowCuda, IsItsDefinitionForAllLengths) {
  for (const int64_t n : {1, 7, 64, 65, 128, 129, 300})
    for (const auto& [back, ahead] : {std::pair{32, 31}, {32, 32}, {0, 5}, {3, 0}}) {
      expect_near_definition({2, 2, n, 64, 64, 133}, true, back, ahead);
      if (back == 32) expect_near_definition({2, 2, n, 64, 64, 266}, false, back, ahead);
    }
  expect_near_definition({1, 1, 1000, 64, 64, 133}, true, 32, 31);
}

TEST(RandomWindowCuda, IsItsDefinitionForAllWidths) {
  for (const bool mirrored : {false, true})
    for (const auto& [e, d, p] : {std::tuple{8, 8, 5}, {24, 40, 30}, {32, 32, 111}, {64, 64, 190}})
      expect_near_definition({1, 2, 170, e, d, p}, mirrored, 20, 9);
  expect_near_definition({1, 2, 170, 64, 64, 384}, false, 20, 9);
}

TEST(RandomWindowCuda, IsItsDefinitionUnderACausalMask) {
  for (const int64_t n : {1, 7, 64, 128, 129, 300})
    for (const int64_t back : {32, 20, 0}) {
      auto keep = random_normal({2, n}, 9) > -1;
      keep.select(1, 0).fill_(true);
      expect_near_definition({2, 2, n, 64, 64, 133}, true, back, 0, keep, true);
      if (back == 20) expect_near_definition({2, 2, n, 64, 64, 266}, false, back, 0, keep, true);
      if (back == 20) expect_near_definition({2, 2, n, 24, 40, 30}, true, back, 0, keep, true);
    }
  expect_near_definition({1, 1, 1000, 64, 64, 133}, true, 32, 0, {}, true);
}

TEST(RandomWindowCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const WindowInputs in(1, 2, 600, 64, 64, 64);
  auto how = in.way(true, 32, 0, {}, true);
  how.omega = how.omega.to(kOnGpu);
  const auto x = in.q.to(kOnGpu);
  const auto results = [&](const at::Tensor& keys, int64_t n) {  // and gradients, of the first n
    const auto q = x.clone().requires_grad_(), k = keys.clone().requires_grad_();
    const auto y = random_window(q, k, k, how).narrow(2, 0, n);
    y.backward(in.g.to(kOnGpu).narrow(2, 0, n));
    return at::cat({y.detach(), q.grad().narrow(2, 0, n), k.grad().narrow(2, 0, n)}, 3).cpu();
  };
  for (const int64_t n : {1, 70, 300}) {
    auto later = x.clone();
    later.narrow(2, n, 600 - n).mul_(-3);
    EXPECT_NEAR_TENSOR(results(later, n), results(x, n), kExact);
  }
}

TEST(RandomWindowCuda, PaddedKeysAreNotThere) {
  auto keep = random_normal({3, 200}, 9) > 0;
  keep[2].narrow(0, 40, 160).fill_(false);
  expect_near_definition({3, 2, 200, 64, 64, 64}, true, 32, 31, keep);
  expect_near_definition({3, 2, 200, 64, 64, 64}, false, 32, 31, keep);
  WindowInputs in(3, 2, 200, 64, 64, 64);
  keep[1].fill_(false);  // a row of padding alone
  const auto how = in.way(true, 32, 31, keep);
  const auto padded = keep.logical_not().unsqueeze(1).unsqueeze(-1);
  const auto first = random_window_results(in, how, kOnGpu, random_window);
  in.k = in.k.masked_fill(padded, 1e30);
  in.v = in.v.masked_fill(padded, -7);
  const auto second = random_window_results(in, how, kOnGpu, random_window);
  for (const size_t i : {0, 1}) {
    EXPECT_NEAR_TENSOR(second[i], first[i], kExact);
    EXPECT_NEAR_TENSOR(first[i][1], at::zeros_like(first[i][1]), kExact);
  }
  for (const size_t i : {2, 3})
    EXPECT_NEAR_TENSOR(second[i] * padded, at::zeros_like(first[i]), kExact);
}

TEST(RandomWindowCuda, LargeExponentsCancel) {
  WindowInputs in(1, 2, 300, 64, 64, 100);
  in.q = in.q * 20;
  in.k = in.k * 20;
  for (const bool mirrored : {false, true})
    for (const bool causal : {false, true})
      for (const auto& t :
           random_window_results(in, in.way(mirrored, 32, 31, {}, causal), kOnGpu, random_window))
        EXPECT_TRUE(t.isfinite().all().item<bool>());
}

// Queries that see no key have nothing that their exponents are relative to.
TEST(RandomWindowCuda, LargeExponentsWithoutAKeyReadZero) {
  WindowInputs in(2, 2, 300, 64, 64, 100);
  in.q = in.q * 20;
  auto keep = at::ones({2, 300}, at::kBool);
  keep[0].narrow(0, 0, 170).fill_(false);
  keep[1].fill_(false);
  for (const bool mirrored : {false, true})
    for (const bool causal : {false, true}) {
      const auto found =
          random_window_results(in, in.way(mirrored, 32, 31, keep, causal), kOnGpu, random_window);
      for (const auto& t : found) EXPECT_TRUE(t.isfinite().all().item<bool>());
      for (const size_t i : {0, 1}) {
        EXPECT_NEAR_TENSOR(found[i][1], at::zeros_like(found[i][1]), kExact);
        if (!causal) continue;
        const auto first = found[i][0].narrow(1, 0, 170);
        EXPECT_NEAR_TENSOR(first, at::zeros_like(first), kExact);
      }
    }
}

TEST(RandomWindowCuda, IsTheSameEveryTime) {
  const WindowInputs in(1, 2, 1000, 64, 64, 64);
  const auto how = in.way(true, 32, 31);
  const auto first = random_window_results(in, how, kOnGpu, random_window),
             again = random_window_results(in, how, kOnGpu, random_window);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR_TENSOR(again[i], first[i], kExact);
}

}  // namespace
}  // namespace longbow
