#include "longbow/tensors/profile.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace longbow {
namespace {

const Profile::Part* find(const Profile& profile, const std::string& name) {
  const auto found = std::ranges::find(profile.parts, name, &Profile::Part::name);
  return found == profile.parts.end() ? nullptr : &*found;
}

TEST(Profile, CountsOperatorsAndSortsThemByTheirTime) {
  const auto a = at::ones({300, 300}), b = at::ones({4});
  const auto result = profile(
      [&] {
        for (int i = 0; i < 3; ++i) (void)a.mm(a);
        (void)b.add(b);
      },
      at::kCPU);
  const auto *product = find(result, "aten::mm"), *sum = find(result, "aten::add");
  ASSERT_TRUE(product && sum);
  EXPECT_EQ(product->count, 3);
  EXPECT_EQ(sum->count, 1);
  EXPECT_TRUE(
      std::ranges::is_sorted(result.parts, std::ranges::greater(), &Profile::Part::milliseconds));
  EXPECT_GT(result.busy, 0);
  EXPECT_LE(result.busy, 1);
}

// matmul does nothing but call mm.
TEST(Profile, TimeIsCountedOnce) {
  const auto a = at::ones({300, 300});
  const auto result = profile([&] { (void)at::matmul(a, a); }, at::kCPU);
  const auto *outer = find(result, "aten::matmul"), *inner = find(result, "aten::mm");
  ASSERT_TRUE(outer && inner);
  EXPECT_LT(outer->milliseconds, inner->milliseconds);
  double sum = 0;
  for (const auto& part : result.parts) sum += part.milliseconds;
  EXPECT_LE(sum, result.milliseconds * 1.001);
}

// Otherwise what follows would be recorded, and the next profile refused.
TEST(Profile, ABodyThatThrowsLeavesTheProfilerOff) {
  EXPECT_THROW((void)profile([] { throw std::runtime_error("stop"); }, at::kCPU),
               std::runtime_error);
  const auto b = at::ones({4});
  const auto result = profile([&] { (void)b.add(b); }, at::kCPU);
  const auto* sum = find(result, "aten::add");
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->count, 1);
}

TEST(Profile, TheTextNamesTheLongest) {
  const Profile profile = {.parts = {{"long", 2, 1}, {"short", 1, 3}},
                           .milliseconds = 4,
                           .busy = 0.75,
                           .runtime_calls = {{"cudaLaunchKernel", 4}}};
  EXPECT_EQ(profile.text(1),
            "4.000 ms, busy 75.0 % of the time\n"
            "  cudaLaunchKernel                       4\n"
            "       2.000 ms      1 x long\n");
}

}  // namespace
}  // namespace longbow
