#include "longbow/report/number.h"

#include <gtest/gtest.h>

namespace longbow::reporting {
namespace {

TEST(Number, FractionsAreShownInPercent) {
  EXPECT_DOUBLE_EQ(shown_score(0.5731, "accuracy"), 57.31);
  EXPECT_DOUBLE_EQ(shown_score(0.5, "macro_f1"), 50);
  EXPECT_DOUBLE_EQ(shown_score(27.3, "bleu"), 27.3);
  EXPECT_EQ(score_unit("accuracy"), "%");
  EXPECT_EQ(score_unit("bleu"), "");
  EXPECT_TRUE(lower_is_better("perplexity"));
  EXPECT_FALSE(lower_is_better("accuracy"));
}

TEST(Number, ScoresHaveTheDecimalsOfTheirMetric) {
  EXPECT_EQ(score_text(57.314, "accuracy"), "57.31");
  EXPECT_EQ(score_text(0.8514, "pearson"), "0.851");
  EXPECT_EQ(score_text(3.14159, "loss"), "3.142");
}

TEST(Number, DurationsPickTheirUnit) {
  EXPECT_EQ(duration_text(1.5e-6), "1.5 µs");
  EXPECT_EQ(duration_text(1e-3), "1 ms");
  EXPECT_EQ(duration_text(0.2504), "250 ms");
  EXPECT_EQ(duration_text(12), "12 s");
  EXPECT_EQ(duration_text(4321), "4321 s");
  EXPECT_EQ(duration_text(0), "0 ns");
}

TEST(Number, ExactTextReadsBackAsTheSameNumber) {
  for (auto value : {0.1, 1.0 / 3, 2.5e6, 1e-9, -7.0})
    EXPECT_EQ(std::stod(exact_text(value)), value);
  EXPECT_EQ(exact_text(2500000), "2500000");
}

}  // namespace
}  // namespace longbow::reporting
