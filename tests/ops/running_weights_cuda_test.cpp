#include "tests/ops/running_weights.h"

#include <gtest/gtest.h>

#include "tests/ops/roundings.h"

namespace longbow {
namespace {

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");

TEST(RunningWeightsCuda, AreTheirDefinitionForAllShapes) {
  for (const int64_t n : {1, 15, 64, 65, 100, 5000})
    for (const int64_t c : {2, 64, 130})
      for (const bool masked : {false, true}) {
        if (n == 5000 && c != 2) continue;
        SCOPED_TRACE(c10::str(n, " tokens, ", c, " channels", masked ? ", masked" : ""));
        const auto rows = (random_normal({2, n, c + 4}, 1) * 2).to(at::kBFloat16),
                   slopes = random_normal({2, n, 3 * c}, 2).to(at::kBFloat16);
        const auto keep = masked ? random_normal({2, n}, 3) > 0.5 : at::Tensor();
        ASSERT_TRUE(has_running_weights_kernel(rows.to(kOnGpu)));
        const auto got = running_weights_results(rows, slopes, keep, kOnGpu, running_weights),
                   want = running_weights_results(rows, slopes, keep, at::kDouble,
                                                  dense_running_weights);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
      }
}

TEST(RunningWeightsCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const auto rows = random_normal({1, 400, 68}, 1);
  const auto sums = [&](const at::Tensor& logits) {
    return running_weights(logits.to(kOnGpu), {}, 1).sums.cpu();
  };
  for (const int64_t n : {1, 20, 300}) {
    auto later = rows.clone();
    later.narrow(1, n, 400 - n).mul_(-5);
    EXPECT_NEAR_TENSOR(sums(later).narrow(1, 0, n), sums(rows).narrow(1, 0, n), kExact);
  }
}

TEST(RunningWeightsCuda, ReadNothingOfTokensThatAreNotKept) {
  auto rows = random_normal({1, 70, 4}, 1);
  const auto keep = random_normal({1, 70}, 2) > 0;
  const auto sums = [&] { return running_weights(rows.to(kOnGpu), keep.cuda(), 1).sums.cpu(); };
  const auto want = sums();
  rows = rows.masked_fill(keep.logical_not().unsqueeze(-1), NAN);
  EXPECT_NEAR_TENSOR(sums(), want, kExact);
}

TEST(RunningWeightsCuda, LeaveOtherTypesToTheFormula) {
  const auto rows = random_normal({2, 9, 7}, 1), slopes = random_normal({2, 9, 9}, 2);
  const auto got = running_weights_results(rows, slopes, {}, kOnGpu.dtype(at::kDouble),
                                           running_weights),
             want = running_weights_results(rows, slopes, {}, at::kDouble, dense_running_weights);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
}

TEST(RunningWeightsCuda, HideNoNaN) {
  const auto logits = at::full({1, 3, 2}, NAN, kOnGpu).requires_grad_();
  const auto found = running_weights(logits, {}, 1);
  found.sums.sum().backward();
  for (const auto& one : {found.weights, found.sums, logits.grad()})
    EXPECT_TRUE(one.isnan().all().item<bool>());
}

}  // namespace
}  // namespace longbow
