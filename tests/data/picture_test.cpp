// Pictures of Pathfinder: the figures of the original's procedure, and what every picture must be.
#include "longbow/data/sets/pathfinder/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/data/folder.h"

namespace longbow::pathfinder {
namespace {

const Painter& painter(int size, Level level = Level::hard) {
  static std::map<std::pair<int, Level>, Painter> made;
  return made.try_emplace({size, level}, kind_of(size, level)).first->second;
}

// Enough for the figures of a size; a large picture takes long.
const std::vector<Picture>& pictures(int size) {
  static std::map<int, std::vector<Picture>> painted;
  auto& all = painted[size];
  if (all.empty()) all = paint(painter(size), Stream(1, "test"), 0, size == 32 ? 800 : 24);
  return all;
}

struct Statistic {
  double mean = 0, error = 0;  // of the mean
};
template <class Of>
Statistic statistic(const std::vector<Picture>& all, const Of& of) {
  double sum = 0, squares = 0;
  const auto count = static_cast<double>(all.size());
  for (const auto& picture : all) {
    const double value = of(picture);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / count;
  return {mean, std::sqrt((squares / count - mean * mean) / count)};
}

double lit(const Picture& picture) {
  const auto dark = std::count(picture.pixels.begin(), picture.pixels.end(), 0);
  return 1 - double(dark) / double(picture.pixels.size());
}

// Both the figure of a long run of this program and that of an independent rendering, where there
// is one: within four errors of the mean, and within ten percent.
void expect(const Statistic& found, double own, double other) {
  EXPECT_NEAR(found.mean, own, 4 * found.error);
  EXPECT_NEAR(own, other, 0.1 * other);
}

TEST(Pictures, HaveTheFiguresOfTheOriginalAtSize32) {
  const auto& all = pictures(32);
  expect(statistic(all, lit), 0.4514, 0.456);
  expect(statistic(all, [](const auto& p) { return p.distractors; }), 4.633, 4.7);
  const auto labels = statistic(all, [](const auto& p) { return p.label; });
  EXPECT_NEAR(labels.mean, 0.5, 4 * labels.error);
  const auto restarts = statistic(all, [](const auto& p) { return double(p.restarts); });
  EXPECT_NEAR(restarts.mean, 25.4, 4 * restarts.error);
}

TEST(Pictures, HaveTheFiguresOfTheOriginalAtSize128) {
  const auto& all = pictures(128);
  expect(statistic(all, lit), 0.1373, 0.14);
  expect(statistic(all, [](const auto& p) { return p.distractors; }), 7.70, 7.9);
  const auto wide = statistic(all, [](const auto& p) { return p.margin == 3; });
  EXPECT_NEAR(wide.mean, 0.5, 4 * wide.error) << "margins 2 and 3 are equally likely";
}

TEST(Pictures, HaveContoursOfTheirLevel) {
  for (const auto& [level, length] :
       {std::pair(Level::easy, 6), {Level::inter, 9}, {Level::hard, 14}})
    for (const auto& picture : paint(painter(32, level), Stream(3, "test"), 0, 20))
      for (const auto& contour : picture.contours) EXPECT_EQ(std::ssize(contour.paddles), length);
}

// The label again, from where the markers are. The ground of a last paddle is not taken while the
// other contour grows, in the original too, so that both may end in the same pixel, if seldom.
TEST(Pictures, HaveTheLabelOfTheirMarkers) {
  for (const int size : {32, 128}) {
    int joined = 0, met = 0;
    const auto& all = pictures(size);
    for (const auto& picture : all) {
      const auto& [one, other] = picture.contours;
      ASSERT_NE(one.tail, other.tail);
      const auto [from, to] = picture.markers;
      ASSERT_TRUE(from == one.tail || from == other.tail);
      ASSERT_TRUE(to == one.tip || to == other.tip);
      EXPECT_EQ(one.tail, one.paddles.front().at);
      EXPECT_EQ(one.tip, one.paddles.back().at);
      if (one.tip == other.tip && ++met) continue;
      const bool same = (from == one.tail) == (to == one.tip);
      EXPECT_EQ(picture.label, same ? 1 : 0);
      joined += same;
    }
    EXPECT_LE(met, std::ssize(all) / 50);
    EXPECT_GT(joined, 0);
    EXPECT_LT(joined, std::ssize(all));
  }
}

TEST(Pictures, AreAsBrightAsTheirMarkersAtSize128) {
  for (const auto& picture : pictures(128)) {
    EXPECT_EQ(*std::max_element(picture.pixels.begin(), picture.pixels.end()), 255);
    for (const auto at : picture.markers)
      EXPECT_GE(picture.pixels[static_cast<size_t>(at.y * 128 + at.x)], 250);
  }
}

// A contour goes on where it is, by a paddle and a gap, and does not turn back.
TEST(Pictures, HaveContoursWithoutJumps) {
  for (const int size : {32, 128})
    for (const auto& picture : pictures(size)) {
      const auto& kind = painter(size).kind();
      const double step = kind.length + 2 * picture.margin;
      for (const auto& contour : picture.contours)
        for (size_t i = 2; i < contour.paddles.size(); ++i) {
          const auto a = contour.paddles[i - 1].at, b = contour.paddles[i].at;
          EXPECT_NEAR(std::hypot(a.y - b.y, a.x - b.x), step, 4) << i;
        }
    }
}

TEST(Pictures, DoNotDependOnTheNumberOfThreads) {
  const Stream stream(7, "test");
  const auto one = paint(painter(32), stream, 0, 40, 1);
  for (const int64_t threads : {2, 3, 8}) {
    const auto several = paint(painter(32), stream, 0, 40, threads);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(several[i].pixels, one[i].pixels);
  }
  const auto later = paint(painter(32), stream, 30, 10, 2);
  for (size_t i = 0; i < later.size(); ++i) EXPECT_EQ(later[i].pixels, one[30 + i].pixels);
  EXPECT_NE(paint(painter(32), Stream(8, "test"), 0, 1)[0].pixels, one[0].pixels);
}

std::string checksum(int size) {
  std::string bytes;
  for (const auto& picture : paint(painter(size), Stream(1, "golden"), 0, 4)) {
    bytes.append(picture.pixels.begin(), picture.pixels.end());
    bytes.push_back(static_cast<char>(picture.label));
  }
  return sha256(bytes).substr(0, 16);
}

// What is cached and published under a seed: a change needs another kVersion.
TEST(Pictures, AreTheSameInEveryVersion) {
  ASSERT_EQ(kVersion, 1);
  EXPECT_EQ(checksum(32), "b83292884cfd35ac");
  EXPECT_EQ(checksum(64), "0006e4ece34c653a");
  EXPECT_EQ(checksum(128), "83dd407d40d119fe");
  EXPECT_EQ(checksum(256), "9d90f79501363a93");
}

TEST(Pictures, CanKeepToTheDirectionsOfTheOriginalProgram) {
  auto kind = kind_of(32, Level::hard);
  kind.original_border = true;
  const auto all = paint(Painter(kind), Stream(1, "test"), 0, 300);
  const auto distractors = statistic(all, [](const auto& p) { return p.distractors; });
  EXPECT_NEAR(distractors.mean, 1.147, 4 * distractors.error);
  const auto share = statistic(all, lit);
  EXPECT_NEAR(share.mean, 0.341, 4 * share.error);
}

TEST(Pictures, HaveOneOfFourSizes) {
  EXPECT_EQ(error_of([] { kind_of(48, Level::hard); }),
            "size is 48, but there are no such pictures; one of: 32, 64, 128, 256");
  EXPECT_EQ(kind_of(32, Level::hard).distractors, 5);
  EXPECT_EQ(kind_of(64, Level::hard).distractors, 5);
  EXPECT_EQ(kind_of(128, Level::hard).distractors, 8);
  EXPECT_EQ(kind_of(256, Level::hard).distractors, 7);
  EXPECT_EQ(kind_of(32, Level::easy).distractor_length, 2);
}

}  // namespace
}  // namespace longbow::pathfinder
