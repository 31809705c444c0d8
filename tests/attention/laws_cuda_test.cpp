#include <ATen/Context.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

class CudaLaws : public testing::TestWithParam<Subject> {
 protected:
  static void expect(const Law& law) {
    ASSERT_TRUE(at::globalContext().hasCUDA()) << "these tests need a GPU";
    EXPECT_TRUE(keeps(GetParam(), law)) << GetParam().name << ": " << law.sentence;
  }
};

TEST_P(CudaLaws, TheGpuAgrees) {
  expect(kTheGpuAgrees);
}
TEST_P(CudaLaws, LessPrecisionIsNearby) {
  expect(kLessPrecisionIsNearbyOnTheGpu);
}
TEST_P(CudaLaws, ACapturedGraphReplays) {
  expect(kACapturedGraphReplays);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, CudaLaws, testing::ValuesIn(subjects()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace longbow
