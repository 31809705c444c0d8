#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/members.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(MembersCuda, AreTheFormulaForAllWidthsAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 8e-3}, {at::kHalf, 1e-3}})
    for (const int64_t width : {8, 64, 24, 12})
      for (const Divided added : {Divided(), Divided(0.0), Divided(0.25)}) {
        SCOPED_TRACE(c10::str(width, " ", type, ", ", added.value_or(-1)));
        const at::Device device("cuda:0");
        const auto token = std::get<1>(random_normal({2, 3, 5, 37}, 1).topk(9)).to(device);
        const auto members = Members::of(token, 37);
        const auto x = random_normal({2, 37, 3, width}, 2).to(device, type).transpose(1, 2),
                   y = random_normal({2, 3, 45, width}, 3).to(device, type);
        const Tolerance rounding = {error, error};
        const auto near = [&](const Tensor& got, const Tensor& want) {
          return near_tensor(got.cpu().to(at::kDouble), want.cpu().to(at::kDouble), rounding);
        };
        EXPECT_TRUE(near(take_members(x, members, added),
                         take_members_formula(x, token, members.place, added)));
        EXPECT_TRUE(near(sum_members(y, members, added),
                         sum_members_formula(y, token, members.place, added)));
      }
}

}  // namespace
}  // namespace longbow
