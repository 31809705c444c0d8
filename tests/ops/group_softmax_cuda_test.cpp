#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/group_softmaxes.h"

namespace longbow {
namespace {

const at::Device kDevice("cuda:0");

TEST(GroupSoftmaxCuda, IsTheFormula) {
  for (const int64_t group : {4, 8, 100, 128, 132, 256, 260, 512, 6, 516})
    for (const double rate : {0.0, 0.3})
      for (const int64_t count : {1, 33}) {
        SCOPED_TRACE(c10::str("groups of ", group, ", rate ", rate, ", ", count, " rows"));
        const GroupProblem p = {.group = group, .count = count, .rate = rate};
        const auto got = group_results(p, at::kFloat, kDevice),
                   want = group_results(p, at::kDouble, at::kCPU);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-5, 1e-5})) << i;
      }
}

}  // namespace
}  // namespace longbow
