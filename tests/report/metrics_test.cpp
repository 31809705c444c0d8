#include "longbow/report/table/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "longbow/core/error.h"
#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

TEST(Metrics, EverySplitAndQuantityIsACurve) {
  sample::Folder folder;
  auto path = folder.write(
      "metrics.jsonl",
      "{\"step\": 1, \"split\": \"train\", \"loss\": 2, \"learning_rate\": 0.1}\n\n"
      "{\"step\": 2, \"split\": \"train\", \"loss\": null, \"note\": \"text\", \"best\": true}\n"
      "{\"step\": 2, \"split\": \"valid\", \"loss\": 3, \"seconds\": 9}\n");
  std::vector<std::string> notes;
  auto curves = read_curves(path, {.label = "softmax", .task = "listops"}, notes);
  ASSERT_EQ(curves.size(), 3u);
  EXPECT_EQ(curves[0].quantity, "loss");
  ASSERT_EQ(curves[0].points.size(), 2u);
  EXPECT_TRUE(std::isnan(curves[0].points[1].second));
  EXPECT_EQ(curves[1].quantity, "learning_rate");
  EXPECT_EQ(curves[2].split, "valid");
  EXPECT_EQ(curves[2].task, "listops");
  EXPECT_EQ(notes, std::vector<std::string>{
                       path + ": loss (train) is not finite at 1 of 2 steps, first at step 2"});
}

// Older files hold the words of numbers that are not finite, newer ones null.
TEST(Metrics, ANumberThatIsNotFiniteIsMissing) {
  sample::Folder folder;
  auto path = folder.write("metrics.jsonl",
                           "{\"step\": 1, \"split\": \"valid\", \"perplexity\": \".inf\"}\n"
                           "{\"step\": 2, \"split\": \"valid\", \"perplexity\": \"-.inf\"}\n"
                           "{\"step\": 3, \"split\": \"valid\", \"perplexity\": \".nan\"}\n"
                           "{\"step\": 4, \"split\": \"valid\", \"perplexity\": null}\n"
                           "{\"step\": 5, \"split\": \"valid\", \"perplexity\": 9}\n");
  std::vector<std::string> notes;
  auto curves = read_curves(path, {.label = "a", .task = "t"}, notes);
  ASSERT_EQ(curves.size(), 1u);
  ASSERT_EQ(curves[0].points.size(), 5u);
  EXPECT_EQ(notes, std::vector<std::string>{
                       path + ": perplexity (valid) is not finite at 4 of 5 steps, first at step "
                              "1"});
  auto points = bands(curves, "t", "perplexity").at(0).points;
  ASSERT_EQ(points.size(), 5u);
  EXPECT_TRUE(std::isnan(points[3].mean));
  EXPECT_EQ(points[4].mean, 9);
}

TEST(Metrics, ASeedWithoutAValueDoesNotCount) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Curve> curves = {
      {.label = "a", .task = "t", .quantity = "loss", .split = "valid", .points = {{1, nan}}},
      {.label = "a", .task = "t", .quantity = "loss", .split = "valid", .points = {{1, 4}}}};
  auto point = bands(curves, "t", "loss").at(0).points.at(0);
  EXPECT_EQ(point.mean, 4);
  EXPECT_EQ(point.low, 4);
  for (int step = 2; step < 10; ++step) curves[0].points.emplace_back(step, step < 6 ? nan : 2);
  auto thin = bands(curves, "t", "loss", 3).at(0).points;
  ASSERT_EQ(thin.size(), 3u);
  EXPECT_EQ(thin[0].mean, 4);
  EXPECT_EQ(thin[2].mean, 2);
}

TEST(Metrics, AHalfWrittenLastLineIsANote) {
  sample::Folder folder;
  auto path = folder.write("metrics.jsonl",
                           "{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n{\"step\": 2, \"sp");
  std::vector<std::string> notes;
  auto curves = read_curves(path, {}, notes);
  EXPECT_EQ(curves.at(0).points.size(), 1u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], path + ":2: the last line is incomplete and was left out");
}

TEST(Metrics, ABrokenLineIsNamedByItsNumber) {
  sample::Folder folder;
  std::string good = "{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n";
  std::vector<std::string> notes;
  auto error = [&](const std::string& line) -> std::string {
    try {
      read_curves(folder.write("metrics.jsonl", good + good + line + "\n" + good), {}, notes);
    } catch (const UserError& caught) {
      return caught.what();
    }
    return "nothing was thrown";
  };
  auto place = folder.str() + "/metrics.jsonl:3: ";
  EXPECT_EQ(error("{\"step\": ").find(place), 0u) << error("{\"step\": ");
  EXPECT_EQ(error("{\"loss\": 1}"), place + "a line of metrics needs 'step' and 'split'");
  EXPECT_EQ(error("{\"step\": \"x\", \"split\": \"train\"}").find(place), 0u);
}

TEST(Metrics, ABandSpansTheSeeds) {
  std::vector<Curve> curves = {
      {.label = "a",
       .task = "t",
       .quantity = "loss",
       .split = "train",
       .points = {{1, 2.0}, {2, 1.0}}},
      {.label = "a",
       .task = "t",
       .quantity = "loss",
       .split = "train",
       .seed = 1,
       .points = {{1, 4.0}, {2, 1.0}}},
      {.label = "a", .task = "other", .quantity = "loss", .split = "train", .points = {{1, 99.0}}}};
  auto found = bands(curves, "t", "loss");
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].points.size(), 2u);
  EXPECT_EQ(found[0].points[0].mean, 3);
  EXPECT_EQ(found[0].points[0].low, 2);
  EXPECT_EQ(found[0].points[0].high, 4);
}

TEST(Metrics, ALongCurveIsThinnedByAveraging) {
  Curve curve{.label = "a", .task = "t", .quantity = "loss", .split = "train"};
  for (int i = 0; i < 1003; ++i) curve.points.emplace_back(i, i % 2);
  auto points = bands({curve}, "t", "loss", 100).at(0).points;
  ASSERT_EQ(points.size(), 100u);
  for (auto& point : points) EXPECT_NEAR(point.mean, 0.5, 0.06);
  EXPECT_LT(points.front().step, 10);
  EXPECT_GT(points.back().step, 990);
}

}  // namespace
}  // namespace longbow::reporting
