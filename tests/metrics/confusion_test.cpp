#include "longbow/metrics/confusion.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace longbow::metrics {
namespace {

using Names = std::vector<std::string>;
using Classes = std::vector<size_t>;

TEST(ConfusionMatrix, AddsUpOverBatches) {
  const Classes truths = {0, 0, 1, 2, 2}, predictions = {0, 1, 1, 2, 0};
  ConfusionMatrix whole(3), first(3), second(3);
  whole.add(truths, predictions);
  first.add(std::span(truths).first(2), std::span(predictions).first(2));
  second.add(std::span(truths).subspan(2), std::span(predictions).subspan(2));
  first += second;
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) EXPECT_EQ(first.at(i, j), whole.at(i, j)) << i << " " << j;
  EXPECT_EQ(whole.at(2, 0), 1);
  EXPECT_EQ(whole.hits(), 3);
  EXPECT_EQ(whole.truths(0), 2);
  EXPECT_EQ(whole.predictions(1), 2);
  EXPECT_EQ(whole.total(), 5);
}

TEST(ConfusionMatrix, RefusesWhatDoesNotFit) {
  ConfusionMatrix matrix(2);
  EXPECT_THROW(matrix.add(2, 0), std::out_of_range);
  EXPECT_THROW(matrix.add(0, 2), std::out_of_range);
  EXPECT_THROW(matrix.add(Classes{0}, Classes{0, 1}), std::invalid_argument);
  EXPECT_THROW(matrix.add(Classes{0}, Classes{0}, std::vector<double>{1, 1}),
               std::invalid_argument);
  EXPECT_THROW(matrix += ConfusionMatrix(3), std::invalid_argument);
}

TEST(IndexLabels, SortsNumbersAsNumbersAndOtherLabelsByBytes) {
  const auto numbers = index_labels(Names{"10", "9"}, Names{"9", "-1"});
  EXPECT_EQ(numbers.names, (Names{"-1", "9", "10"}));
  EXPECT_EQ(numbers.truths, (Classes{2, 1}));
  EXPECT_EQ(numbers.predictions, (Classes{1, 0}));
  const auto words = index_labels(Names{"sport", "10"}, Names{"9", "경제"});
  EXPECT_EQ(words.names, (Names{"10", "9", "sport", "경제"}));
  EXPECT_EQ(words.truths, (Classes{2, 0}));
  EXPECT_EQ(words.predictions, (Classes{1, 3}));
}

TEST(IndexLabels, KeepsLabelsApartThatAreOneNumber) {
  const auto labels = index_labels(Names{"1", "01"}, Names{"01", "1"});
  EXPECT_EQ(labels.names, (Names{"01", "1"}));
  EXPECT_EQ(labels.truths, (Classes{1, 0}));
}

}  // namespace
}  // namespace longbow::metrics
