#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/arenas.h"

namespace longbow::cli {
namespace {

TEST(ArenaCells, SideBySideScoreTheSameAndAreTimedAlone) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  ASSERT_EQ(here.run(arena()).code, 0);
  const auto alone = cells(here);
  std::filesystem::remove_all(here.path("out"));
  ASSERT_EQ(here.run(arena({"--jobs", "2", "--untimed"})).code, 0);
  for (const auto* name : {"linear", "local 4"}) {
    EXPECT_EQ(cells(here).at(name).at("shared"), true);
    EXPECT_TRUE(cells(here).at(name).at("tokens_per_second").is_null());
  }
  const auto outcome = here.run(arena({"--jobs", "2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  auto beside = cells(here);
  for (const auto* name : {"linear", "local 4"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(beside.at(name).at("score"), alone.at(name).at("score"));
    EXPECT_EQ(beside.at(name).at("shared"), false);
    EXPECT_GT(beside.at(name).at("tokens_per_second").get<double>(), 0);
    EXPECT_NE(outcome.err.find(std::string(name) + " on recall: "), std::string::npos);
  }
  EXPECT_NE(outcome.err.find("tokens/s alone"), std::string::npos) << outcome.err;
  EXPECT_NE(here.read("out/cells/recall/linear/seed-1/messages.txt").find("training samples"),
            std::string::npos);
}

// Its messages cannot be written, so that the process that measures does not start.
TEST(ArenaCells, AThroughputThatCannotBeMeasuredIsAFailure) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  ASSERT_EQ(here.run(arena({"--jobs", "2", "--untimed"})).code, 0);
  const auto messages = here.path("out/cells/recall/linear/seed-1/messages.txt");
  std::filesystem::remove(messages);
  std::filesystem::create_directories(messages);
  const auto outcome = here.run(arena({"--jobs", "2"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("warning: [1/2] linear on recall: its throughput could not be "
                             "measured; the process ended with code 127\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_TRUE(cells(here).at("linear").at("tokens_per_second").is_null());
  EXPECT_TRUE(cells(here).at("local 4").at("tokens_per_second").is_number());
  std::filesystem::remove(messages);
  EXPECT_EQ(here.run(arena({"--jobs", "2"})).code, 0) << "tried again";
  EXPECT_TRUE(cells(here).at("linear").at("tokens_per_second").is_number());
}

}  // namespace
}  // namespace longbow::cli
