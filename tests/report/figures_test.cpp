#include "longbow/report/draw/figures.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

TEST(Figures, AreWellFormedAndDescribed) {
  auto arena = sample::arena(), bench = sample::bench();
  auto table = summarize(arena);
  auto looks = looks_of(arena), bench_looks = looks_of(bench);
  for (auto& svg :
       {score_figure(table, "listops", looks), curve_figure(arena, "listops", "loss", looks),
        time_figure(bench, "forward", bench_looks), memory_figure(bench, "forward", bench_looks)}) {
    ASSERT_FALSE(svg.empty());
    EXPECT_EQ(sample::unbalanced(svg), "");
    EXPECT_EQ(svg.find("<title></title>"), std::string::npos);
    EXPECT_EQ(svg.find("<desc></desc>"), std::string::npos);
  }
}

TEST(Figures, TheScoreFigureHoldsWhatWasScoredAndItsBaselines) {
  auto record = sample::arena();
  auto svg = score_figure(summarize(record), "listops", looks_of(record));
  EXPECT_NE(svg.find("softmax: 52.00 ± 2.83 %, 20k tokens/s"), std::string::npos)
      << svg.substr(0, 500);
  EXPECT_EQ(svg.find("reformer"), std::string::npos);
  EXPECT_NE(svg.find("majority 17.00"), std::string::npos);
}

TEST(Figures, TheTimeFigureDrawsSoftmaxBoldAndMarksTheCrossover) {
  auto record = sample::bench();
  auto svg = time_figure(record, "forward", looks_of(record));
  EXPECT_EQ(sample::count(svg, "class=\"line bold\""), 1u);
  EXPECT_EQ(sample::count(svg, "class=\"ring\""), 1u);
  EXPECT_NE(svg.find("linear is faster than softmax from length 1000"), std::string::npos);
}

TEST(Figures, OneMechanismAloneIsNotCompared) {
  Record record;
  record.cells = {sample::cell("softmax", "listops", 0, 0.5)};
  EXPECT_EQ(score_figure(summarize(record), "listops", looks_of(record)), "");
}

TEST(Figures, NothingToDrawIsNothing) {
  Record empty;
  EXPECT_EQ(curve_figure(empty, "t", "loss", {}), "");
  EXPECT_EQ(time_figure(empty, "forward", {}), "");
  EXPECT_EQ(memory_figure(empty, "forward", {}), "");
  Record failed;
  failed.cells = {sample::failure("a", "t", "FAIL", "why")};
  EXPECT_EQ(score_figure(summarize(failed), "t", looks_of(failed)), "");
}

// Values that fall by decades keep a scale on which the end can be read.
TEST(Figures, CurvesAreInTheUnitOfTheirMetric) {
  Record record;
  const auto curve = [&](const std::string& quantity,
                         std::vector<std::pair<double, double>> points) {
    record.curves = {
        {.label = "a", .task = "t", .quantity = quantity, .split = "valid", .points = points}};
    return curve_figure(record, "t", quantity, looks_of(record));
  };
  auto accuracy = curve("accuracy", {{1, 0.25}, {2, 0.5}});
  EXPECT_NE(accuracy.find(">accuracy %<"), std::string::npos) << accuracy;
  EXPECT_NE(accuracy.find("<title>a: 2, 50</title>"), std::string::npos) << accuracy;
  auto none = curve("accuracy", {{1, 0}, {2, 0}});
  EXPECT_EQ(none.find(">-"), std::string::npos) << "less than nothing: " << none;
  auto perplexity = curve("perplexity", {{1, 1000}, {2, 10}});
  EXPECT_NE(perplexity.find(">100<"), std::string::npos) << perplexity;
  EXPECT_EQ(perplexity.find(">600<"), std::string::npos) << perplexity;
}

// The mean of three equal rates may differ from them in the last bit.
TEST(Figures, AConstantRateOverSeedsIsAFlatLine) {
  Record record;
  for (int64_t seed : {1, 2, 3})
    record.curves.push_back({.label = "a",
                             .task = "t",
                             .quantity = "learning_rate",
                             .split = "train",
                             .seed = seed,
                             .points = {{1, 0.1}, {2, 0.1}}});
  auto svg = curve_figure(record, "t", "learning_rate", looks_of(record));
  EXPECT_NE(svg.find(">0.1<"), std::string::npos) << svg;
  EXPECT_LE(sample::count(svg, "class=\"tick\""), 24u) << svg;
}

TEST(Figures, ATestScoreIsADotWithoutASecondLabel) {
  Record record;
  for (auto [split, last] : {std::pair("valid", 1), std::pair("test", 3)}) {
    Curve curve{
        .label = "only", .task = "t", .quantity = "loss", .split = split, .points = {{3, 1}}};
    if (last == 1) curve.points.insert(curve.points.begin(), {1, 2});
    record.curves.push_back(curve);
  }
  auto svg = curve_figure(record, "t", "loss", looks_of(record));
  EXPECT_EQ(sample::count(svg, ">only<"), 1u) << svg;
  EXPECT_EQ(sample::count(svg, "line key"), 1u) << svg;
  EXPECT_EQ(sample::count(svg, "stroke:currentColor"), 2u) << "a line and a ring: " << svg;
  EXPECT_EQ(sample::count(svg, "hollow-dot"), 2u) << "the score and its key: " << svg;
}

// Without evaluations on the way, the training is what there is to see.
TEST(Figures, TrainingIsFaintOnlyBesideAnotherLine) {
  auto record = sample::arena();
  auto svg = curve_figure(record, "listops", "loss", looks_of(record));
  EXPECT_EQ(sample::count(svg, "class=\"line faint\""), 1u) << svg;
  record.curves[1].points.pop_back();
  svg = curve_figure(record, "listops", "loss", looks_of(record));
  EXPECT_EQ(sample::count(svg, "class=\"line faint\""), 0u) << svg;
}

std::vector<std::string> axis_ticks(const std::string& svg) {
  std::vector<std::string> found;
  std::regex pattern("text-anchor=\"middle\" class=\"tick\">([^<]*)<");
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

TEST(Figures, StepsAreWholeAndAtLeastThree) {
  Record record;
  for (auto& points : {std::vector<std::pair<double, double>>{{3, 1}},
                       {{1, 1}, {2, 1}},
                       {{1, 1}, {3, 2}},
                       {{0, 1}},
                       {{100, 1}, {101, 1}}}) {
    record.curves = {
        {.label = "a", .task = "t", .quantity = "loss", .split = "train", .points = points}};
    for (auto width : {Width::wide, Width::narrow}) {
      auto found = axis_ticks(curve_figure(record, "t", "loss", looks_of(record), width));
      EXPECT_GE(found.size(), 3u) << points[0].first;
      for (auto& tick : found) EXPECT_EQ(tick.find('.'), std::string::npos) << tick;
    }
  }
}

TEST(Figures, LengthsHaveAtLeastThreeTicks) {
  auto record = sample::bench();
  const auto found = [&](Width width) {
    return axis_ticks(time_figure(record, "forward", looks_of(record), width));
  };
  EXPECT_EQ(found(Width::wide), (std::vector<std::string>{"256", "1024", "4096"}));
  std::erase_if(record.benchmarks, [](const Benchmark& row) { return row.length == 1024; });
  EXPECT_EQ(found(Width::wide), (std::vector<std::string>{"256", "1024", "4096"}));
  std::erase_if(record.benchmarks, [](const Benchmark& row) { return row.length != 256; });
  EXPECT_EQ(found(Width::wide), (std::vector<std::string>{"128", "256", "512"}));
  EXPECT_EQ(found(Width::narrow), found(Width::wide));
}

TEST(Figures, SayWhereAnAxisIsLogarithmic) {
  auto bench = sample::bench(), arena = sample::arena();
  auto svg = time_figure(bench, "forward", looks_of(bench));
  EXPECT_NE(svg.find(">time of one call (log scale)<"), std::string::npos);
  EXPECT_NE(svg.find(">sequence length (log scale)<"), std::string::npos);
  svg = score_figure(summarize(arena), "listops", looks_of(arena));
  EXPECT_NE(svg.find(">tokens per second (log scale)<"), std::string::npos);
  EXPECT_NE(svg.find(">accuracy %<"), std::string::npos);
}

TEST(Figures, LossComesFirst) {
  Record record;
  for (auto name : {"accuracy", "loss", "learning_rate"})
    record.curves.push_back({.label = "a", .task = "t", .quantity = name, .split = "train"});
  EXPECT_EQ(quantities(record, "t"),
            (std::vector<std::string>{"loss", "accuracy", "learning_rate"}));
  EXPECT_EQ(quantity_label("learning_rate"), "learning rate");
}

}  // namespace
}  // namespace longbow::reporting
