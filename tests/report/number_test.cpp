#include "longbow/report/table/number.h"

#include <gtest/gtest.h>

#include "longbow/report/table/record.h"

namespace longbow::reporting {
namespace {

TEST(Number, SharesAreShownInPercent) {
  EXPECT_DOUBLE_EQ(measure_of("accuracy").shown(0.5731), 57.31);
  EXPECT_DOUBLE_EQ(measure_of("macro_f1").shown(0.5), 50);
  EXPECT_DOUBLE_EQ(measure_of("bleu").shown(27.3), 27.3);
  EXPECT_EQ(measure_of("accuracy").heading(), "accuracy %");
  EXPECT_EQ(measure_of("bleu").heading(), "bleu");
}

TEST(Number, LossesAndPerplexitiesAreBetterWhenSmall) {
  for (const auto* name : {"loss", "detector_loss", "perplexity", "bits_per_token", "mse"})
    EXPECT_FALSE(measure_of(name).larger_is_better) << name;
  for (const auto* name : {"accuracy", "exact_match", "pearson", "bleu"})
    EXPECT_TRUE(measure_of(name).larger_is_better) << name;
}

TEST(Number, WhatACellSaysOfItsMetricComesFirst) {
  Cell cell{.metric = "surprise", .larger_is_better = false, .percent = true};
  EXPECT_FALSE(measure_of(cell).larger_is_better);
  EXPECT_EQ(measure_of(cell).unit(), "%");
  cell = {.metric = "accuracy"};
  EXPECT_TRUE(measure_of(cell).larger_is_better);
  EXPECT_TRUE(measure_of(cell).percent);
}

TEST(Number, ScoresHaveTheDecimalsOfTheirMetric) {
  EXPECT_EQ(measure_of("accuracy").text(57.314), "57.31");
  EXPECT_EQ(measure_of("pearson").text(0.8514), "0.851");
  EXPECT_EQ(measure_of("loss").text(3.14159), "3.142");
  EXPECT_EQ(measure_of("mse").text(0.0031459), "0.00315");
  EXPECT_EQ(measure_of("mse").text(0), "0.000");
  EXPECT_EQ(measure_of("perplexity").text(123456.7), "1.235e+05");
  EXPECT_EQ(measure_of("accuracy").sentence(0.57314), "accuracy 57.31 %");
  EXPECT_EQ(measure_of("perplexity").sentence(12.3456), "perplexity 12.346");
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
