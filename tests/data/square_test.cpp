#include "longbow/data/sets/pathfinder/square.h"

#include <gtest/gtest.h>

#include <string>

namespace longbow::pathfinder {
namespace {

// One character for each pixel.
std::string drawn(const Square& square) {
  std::string rows;
  for (int y = 0; y < square.side; ++y) {
    for (int x = 0; x < square.side; ++x) rows += square[{y, x}] > 0 ? '#' : '.';
    rows += '\n';
  }
  return rows;
}

std::string line(int side, Point from, Point to, int width) {
  Square square(side);
  draw_line(square, from, to, width);
  return drawn(square);
}

TEST(Square, DrawsThinLinesWithBothEnds) {
  EXPECT_EQ(line(5, {1, 1}, {1, 3}, 1), ".....\n.###.\n.....\n.....\n.....\n");
  EXPECT_EQ(line(5, {3, 3}, {0, 0}, 1), "#....\n.#...\n..#..\n...#.\n.....\n");
  EXPECT_EQ(line(5, {0, 0}, {2, 4}, 1), "#....\n.##..\n...##\n.....\n.....\n");
  EXPECT_EQ(line(3, {1, 1}, {1, 1}, 1), "...\n.#.\n...\n");
  EXPECT_EQ(line(3, {1, 1}, {1, 9}, 1), "...\n.##\n...\n") << "what lies outside is left out";
}

TEST(Square, DrawsWideLinesAsRectangles) {
  EXPECT_EQ(line(6, {2, 1}, {2, 4}, 2), "......\n......\n.####.\n.####.\n......\n......\n");
  EXPECT_EQ(line(6, {1, 2}, {4, 2}, 2), "......\n..##..\n..##..\n..##..\n..##..\n......\n");
  EXPECT_EQ(line(6, {2, 1}, {2, 4}, 3), "......\n.####.\n.####.\n.####.\n......\n......\n");
  EXPECT_EQ(line(6, {2, 2}, {2, 2}, 3), "......\n......\n..#...\n......\n......\n......\n");
  EXPECT_EQ(line(7, {1, 1}, {5, 5}, 3),
            "..#....\n.###...\n#####..\n.#####.\n..#####\n...###.\n....#..\n");
}

TEST(Square, DilatesByADisk) {
  EXPECT_EQ(disk(1), (std::vector<Point>{{-1, 0}, {0, -1}, {0, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(disk(2).size(), 13u);
  EXPECT_EQ(disk(3).size(), 29u);
  Square square(4);
  square[{0, 0}] = 9;
  square[{0, 1}] = 5;
  const auto larger = dilated(square, disk(1));
  EXPECT_EQ(drawn(larger), "###.\n##..\n....\n....\n");
  EXPECT_EQ((larger[{0, 1}]), 9);
  EXPECT_EQ((larger[{1, 1}]), 5);
}

TEST(Square, DilatesInTheDirectionOfTheOffsets) {
  Square square(4);
  square[{2, 2}] = 1;
  EXPECT_EQ(drawn(dilated(square, {{1, 2}})), "....\n#...\n....\n....\n");
}

}  // namespace
}  // namespace longbow::pathfinder
