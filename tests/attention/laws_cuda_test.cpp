// The laws on a GPU, on every mechanism, its default options and each variant.
#include <ATen/Context.h>

#include "tests/attention/laws.h"

namespace longbow {
namespace {

class CudaLaws : public testing::TestWithParam<Subject> {
 protected:
  static void expect(const Law& law) {
    ASSERT_TRUE(at::globalContext().hasCUDA()) << "these tests need a GPU";
    const auto& subject = GetParam();
    if (const auto reason = law.exempt(subject.promises); !reason.empty())
      GTEST_SKIP() << subject.name << " " << reason;
    EXPECT_TRUE(keeps(subject, law, at::kCUDA)) << subject.name << ": " << law.sentence;
  }
};

TEST_P(CudaLaws, AnyLengthIsTaken) {
  expect(kAnyLengthIsTaken);
}
TEST_P(CudaLaws, PaddingIsInvisible) {
  expect(kPaddingIsInvisible);
}
TEST_P(CudaLaws, AnEmptyRowIsFinite) {
  expect(kAnEmptyRowIsFinite);
}
TEST_P(CudaLaws, TheFutureIsInvisible) {
  expect(kTheFutureIsInvisible);
}
TEST_P(CudaLaws, RowsOfABatchAreIndependent) {
  expect(kRowsOfABatchAreIndependent);
}
TEST_P(CudaLaws, AnySplitIntoExtensionsIsTheForwardPass) {
  expect(kAnySplitIntoExtensionsIsTheForwardPass);
}
TEST_P(CudaLaws, LanesMoveAndRestart) {
  expect(kLanesMoveAndRestart);
}
TEST_P(CudaLaws, AStateStaysWhereItIs) {
  expect(kAStateStaysWhereItIs);
}
TEST_P(CudaLaws, AMemoryIsReadWhileDecoding) {
  expect(kAMemoryIsReadWhileDecoding);
}
TEST_P(CudaLaws, EqualsItsOracle) {
  expect(kEqualsItsOracle);
}
TEST_P(CudaLaws, LessPrecisionIsNearby) {
  expect(kLessPrecisionIsNearby);
}
TEST_P(CudaLaws, LessPrecisionIsNearbyUnderPadding) {
  expect(kLessPrecisionIsNearbyUnderPadding);
}
TEST_P(CudaLaws, LessPrecisionIsNearbyWithAMemory) {
  expect(kLessPrecisionIsNearbyWithAMemory);
}
TEST_P(CudaLaws, LessPrecisionIsNearbyWhileDecoding) {
  expect(kLessPrecisionIsNearbyWhileDecoding);
}
TEST_P(CudaLaws, ALongSequenceHidesItsPadding) {
  expect(kALongSequenceHidesItsPadding);
}
TEST_P(CudaLaws, ALongSequenceDecodes) {
  expect(kALongSequenceDecodes);
}
TEST_P(CudaLaws, EvaluationIsDeterministic) {
  expect(kEvaluationIsDeterministic);
}
TEST_P(CudaLaws, CostGrowsAsPromised) {
  expect(kCostGrowsAsPromised);
}
TEST_P(CudaLaws, LaunchesGrowAsPromised) {
  expect(kLaunchesGrowAsPromised);
}
TEST_P(CudaLaws, AMemoryMayHaveAnotherLengthAndWidth) {
  expect(kAMemoryMayHaveAnotherLengthAndWidth);
}
TEST_P(CudaLaws, AMemoryIsReadAtOneCost) {
  expect(kAMemoryIsReadAtOneCost);
}
TEST_P(CudaLaws, RecomputationGivesTheSameGradients) {
  expect(kRecomputationGivesTheSameGradients);
}
TEST_P(CudaLaws, TheGpuAgrees) {
  expect(kTheGpuAgrees);
}
TEST_P(CudaLaws, ACapturedGraphReplays) {
  expect(kACapturedGraphReplays);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, CudaLaws, testing::ValuesIn(subjects()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace longbow
