#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longbow/core/console.h"
#include "longbow/core/log.h"
#include "tests/core/support.h"

namespace longbow {
namespace {

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() { use({}); }
  ~ProgressTest() override { set_console({}); }
  void use(Console console) {
    console.write = [this](const std::string& text) { written += text; };
    set_console(std::move(console));
  }
  ProgressTiming timing() {
    return {.now = [this] { return now; }};
  }
  double now = 100;
  std::string written;
};

}  // namespace

TEST_F(ProgressTest, PlainLinesComeEveryFiveSecondsAndAtTheEnd) {
  Progress progress("train", 100, ProgressStyle::plain, timing());
  for (int step = 1; step <= 100; ++step) {
    now += 0.125;
    progress.update(step, {{"loss", "2.5"}});
  }
  EXPECT_EQ(written,
            "train 1/100 (1%)  loss 2.5  elapsed 0.1s\n"
            "train 41/100 (41%)  loss 2.5  elapsed 5.1s  eta 7.4s\n"
            "train 81/100 (81%)  loss 2.5  elapsed 10s  eta 2.4s\n"
            "train 100/100 (100%)  loss 2.5  elapsed 13s  eta 0.0s\n");
}

TEST_F(ProgressTest, TheRestOfAResumedRunIsEstimatedFromItsOwnPace) {
  Progress progress("train", 1000, ProgressStyle::plain, timing());
  progress.update(900, {});
  now += 10;
  progress.update(910, {});
  EXPECT_NE(written.find("train 910/1000 (91%)  elapsed 10s  eta 1m30s\n"), std::string::npos)
      << written;
}

TEST_F(ProgressTest, AnUnknownTotalHasNoEstimate) {
  Progress progress("read", 0, ProgressStyle::plain, timing());
  progress.update(5, {});
  EXPECT_EQ(written, "read 5  elapsed 0.0s\n");
}

TEST_F(ProgressTest, ABarIsRedrawnInPlaceAndErased) {
  use({.terminal = true, .columns = 60});
  {
    Progress progress("train", 10, ProgressStyle::automatic, timing());
    progress.update(5, {{"loss", "2.5"}});
    now += 0.05;
    progress.update(6, {});
  }
  EXPECT_EQ(written, "\r\x1b[Ktrain [==========          ] 5/10 (50%)  loss 2.5  elapsed \r\x1b[K");
}

TEST_F(ProgressTest, AutomaticIsPlainWithoutATerminal) {
  Progress progress("train", 10, ProgressStyle::automatic, timing());
  progress.update(5, {});
  EXPECT_EQ(written, "train 5/10 (50%)  elapsed 0.0s\n");
}

TEST_F(ProgressTest, JsonIsOneObjectAnUpdate) {
  Progress progress("train", 10, ProgressStyle::json, timing());
  progress.update(1, {{"loss", "2.5"}, {"note", "a \"b\""}});
  now += 2;
  progress.update(2, {{"loss", "nan"}});
  auto first = nlohmann::json::parse(written.substr(0, written.find('\n')));
  auto second = nlohmann::json::parse(written.substr(written.find('\n') + 1));
  EXPECT_EQ(
      first,
      nlohmann::json::parse(
          R"({"label":"train","step":1,"total":10,"values":{"loss":2.5,"note":"a \"b\""},"elapsed":0})"));
  EXPECT_EQ(
      second,
      nlohmann::json::parse(
          R"({"label":"train","step":2,"total":10,"values":{"loss":"nan"},"elapsed":2,"eta":16})"));
}

TEST_F(ProgressTest, OffWritesNothing) {
  Progress progress("train", 10, ProgressStyle::off, timing());
  progress.update(10, {});
  progress.finish();
  EXPECT_EQ(written, "");
}

TEST(ParseProgress, KnowsItsFiveStyles) {
  EXPECT_EQ(parse_progress("auto"), ProgressStyle::automatic);
  EXPECT_EQ(parse_progress("off"), ProgressStyle::off);
  EXPECT_EQ(mistake([] { parse_progress("plian"); }),
            "--progress: 'plian' is no style; did you mean 'plain'?");
  EXPECT_EQ(mistake([] { parse_progress("x"); }),
            "--progress: 'x' is no style; one of: auto, bar, plain, json, off");
}

}  // namespace longbow
