// Every law on every mechanism, its default options and each variant; --gtest_filter=*linformer*
// runs one.
#include "tests/attention/laws.h"

namespace longbow {
namespace {

class Laws : public testing::TestWithParam<Subject> {
 protected:
  static void expect(const Law& law) {
    const auto& subject = GetParam();
    if (const auto reason = law.exempt(subject.promises); !reason.empty())
      GTEST_SKIP() << subject.name << " " << reason;
    EXPECT_TRUE(keeps(subject, law)) << subject.name << ": " << law.sentence;
  }
};

TEST_P(Laws, AnyLengthIsTaken) {
  expect(kAnyLengthIsTaken);
}
TEST_P(Laws, PaddingIsInvisible) {
  expect(kPaddingIsInvisible);
}
TEST_P(Laws, AnEmptyRowIsFinite) {
  expect(kAnEmptyRowIsFinite);
}
TEST_P(Laws, TheFutureIsInvisible) {
  expect(kTheFutureIsInvisible);
}
TEST_P(Laws, RowsOfABatchAreIndependent) {
  expect(kRowsOfABatchAreIndependent);
}
TEST_P(Laws, PermutedTokensGivePermutedOutputs) {
  expect(kPermutedTokensGivePermutedOutputs);
}
TEST_P(Laws, AnySplitIntoExtensionsIsTheForwardPass) {
  expect(kAnySplitIntoExtensionsIsTheForwardPass);
}
TEST_P(Laws, LanesMoveAndRestart) {
  expect(kLanesMoveAndRestart);
}
TEST_P(Laws, AStateStaysWhereItIs) {
  expect(kAStateStaysWhereItIs);
}
TEST_P(Laws, AMemoryIsReadWhileDecoding) {
  expect(kAMemoryIsReadWhileDecoding);
}
TEST_P(Laws, GradientsAreThoseOfDifferences) {
  expect(kGradientsAreThoseOfDifferences);
}
TEST_P(Laws, EqualsItsOracle) {
  expect(kEqualsItsOracle);
}
TEST_P(Laws, LessPrecisionIsNearby) {
  expect(kLessPrecisionIsNearby);
}
TEST_P(Laws, LessPrecisionIsNearbyUnderPadding) {
  expect(kLessPrecisionIsNearbyUnderPadding);
}
TEST_P(Laws, LessPrecisionIsNearbyWithAMemory) {
  expect(kLessPrecisionIsNearbyWithAMemory);
}
TEST_P(Laws, LessPrecisionIsNearbyWhileDecoding) {
  expect(kLessPrecisionIsNearbyWhileDecoding);
}
TEST_P(Laws, ALongSequenceHidesItsPadding) {
  expect(kALongSequenceHidesItsPadding);
}
TEST_P(Laws, ALongSequenceDecodes) {
  expect(kALongSequenceDecodes);
}
TEST_P(Laws, EvaluationIsDeterministic) {
  expect(kEvaluationIsDeterministic);
}
TEST_P(Laws, ASavedModuleIsTheSame) {
  expect(kASavedModuleIsTheSame);
}
TEST_P(Laws, CostGrowsAsPromised) {
  expect(kCostGrowsAsPromised);
}
TEST_P(Laws, LaunchesGrowAsPromised) {
  expect(kLaunchesGrowAsPromised);
}
TEST_P(Laws, AMemoryMayHaveAnotherLengthAndWidth) {
  expect(kAMemoryMayHaveAnotherLengthAndWidth);
}
TEST_P(Laws, AMemoryThatIsNotReadIsRefused) {
  expect(kAMemoryThatIsNotReadIsRefused);
}
TEST_P(Laws, AMemoryIsReadAtOneCost) {
  expect(kAMemoryIsReadAtOneCost);
}
TEST_P(Laws, RecomputationGivesTheSameGradients) {
  expect(kRecomputationGivesTheSameGradients);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, Laws, testing::ValuesIn(subjects()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace longbow
