#include <gtest/gtest.h>

#include <cmath>
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
    progress.update(step, {{"loss", 2.5}});
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
    progress.update(5, {{"loss", 2.5}});
    now += 0.05;
    progress.update(6, {});
  }
  EXPECT_EQ(written, "\r\x1b[Ktrain [==========          ] 5/10 (50%)  loss 2.5\r\x1b[K");
}

TEST_F(ProgressTest, AutomaticIsPlainWithoutATerminal) {
  Progress progress("train", 10, ProgressStyle::automatic, timing());
  progress.update(5, {});
  EXPECT_EQ(written, "train 5/10 (50%)  elapsed 0.0s\n");
}

TEST_F(ProgressTest, ABarKeepsToItsColumnsAndNeverLosesTheTimeThatIsLeft) {
  const Progress::Values values = {{"loss", 2.25},
                                   {"tok/s", 12345, human_count},
                                   {"lr", 1e-3, nullptr, true},
                                   {"mem", 3e9, human_bytes, true}};
  const auto bar = [&](size_t columns) {
    use({.terminal = true, .columns = columns});
    Progress progress("train", 1000, ProgressStyle::bar, timing());
    progress.update(0, values);
    now += 10;
    written.clear();
    progress.update(100, values);
    return written.substr(4);
  };
  EXPECT_EQ(bar(120),
            "train [==                  ] 100/1000 (10%)  loss 2.25  tok/s 12.3k  lr 0.001  "
            "mem 2.79 GiB  elapsed 10s  eta 1m30s");
  EXPECT_EQ(bar(100),
            "train [==                  ] 100/1000 (10%)  loss 2.25  tok/s 12.3k  elapsed 10s  "
            "eta 1m30s");
  EXPECT_EQ(bar(80),
            "train [==                  ] 100/1000 (10%)  loss 2.25  tok/s 12.3k  eta 1m30s");
  EXPECT_EQ(bar(50), "train 100/1000 (10%)  loss 2.25  eta 1m30s");
  EXPECT_EQ(bar(30), "tra 100/1000 (10%)  eta 1m30s");
}

TEST_F(ProgressTest, KnowsWhatFollowsInAQueue) {
  auto own = timing();
  own.after = {.further = 3};
  Progress first("[1/4]", 10, ProgressStyle::plain, own);
  first.update(0, {});
  now += 10;
  written.clear();
  first.update(5, {});
  EXPECT_EQ(written, "[1/4] 5/10 (50%)  elapsed 10s  eta 10s, all 1m10s\n");
  own.after = {.further = 2, .seconds_each = 30};
  Progress second("[2/4]", 10, ProgressStyle::json, own);
  second.update(0, {});
  now += 10;
  written.clear();
  second.update(5, {});
  EXPECT_EQ(nlohmann::json::parse(written).at("eta_all"), 70);
}

// 500 steps of a million took two seconds, but there is only one second more.
TEST_F(ProgressTest, TheTimeThatIsLeftIsNoMoreThanTheWorkMayTake) {
  auto own = timing();
  own.after = {.further = 2};
  Progress progress("train", 1000000, ProgressStyle::json, own);
  progress.update(0, {}, {.used = 0.5, .most = 4});
  now += 2;
  progress.update(500, {}, {.used = 2.5, .most = 4});
  const auto first = nlohmann::json::parse(written.substr(0, written.find('\n')));
  EXPECT_EQ(first.at("eta"), 3.5) << "known before there is a pace";
  auto second = nlohmann::json::parse(written.substr(written.find('\n') + 1));
  EXPECT_EQ(second.at("eta"), 1.5);
  EXPECT_EQ(second.at("eta_all"), 1.5 + 2 * 3.5) << "each takes what this one will have taken";
  written.clear();
  progress.update(999999, {}, {.used = 3, .most = 4});
  second = nlohmann::json::parse(written);
  EXPECT_EQ(second.at("eta"), 0) << "the steps end first";
}

TEST_F(ProgressTest, ABarFillsWithTheTimeWhereThatEndsFirst) {
  use({.terminal = true, .columns = 60});
  Progress progress("train", 1000000, ProgressStyle::bar, timing());
  progress.update(10, {}, {.used = 1, .most = 4});
  EXPECT_EQ(written, "\r\x1b[Ktrain [=====               ] 10/1000000 (25%)  eta 3.0s");
}

TEST_F(ProgressTest, TheLineThatEndsTheTimeIsShown) {
  Progress progress("train", 1000000, ProgressStyle::plain, timing());
  progress.update(1, {}, {.used = 1, .most = 4});
  now += 0.5;
  progress.update(2, {}, {.used = 3.5, .most = 4});
  written.clear();
  now += 0.5;
  progress.update(3, {}, {.used = 4.1, .most = 4});
  EXPECT_EQ(written, "train 3/1000000 (100%)  elapsed 1.0s  eta 0.0s\n");
}

TEST_F(ProgressTest, IsQuietAtFirst) {
  auto own = timing();
  own.quiet = 2;
  Progress progress("read", 10, ProgressStyle::plain, own);
  progress.update(1, {});
  now += 1;
  progress.update(10, {});
  EXPECT_EQ(written, "");
  now += 1.5;
  progress.update(10, {});
  EXPECT_EQ(written, "read 10/10 (100%)  elapsed 2.5s  eta 0.0s\n");
}

TEST_F(ProgressTest, JsonIsOneObjectAnUpdateWithNumbers) {
  Progress progress("train", 10, ProgressStyle::json, timing());
  progress.update(1, {{"loss", 2.5}, {"tok/s", 12345, human_count}});
  now += 2;
  progress.update(2, {{"loss", std::nan("")}});
  auto first = nlohmann::json::parse(written.substr(0, written.find('\n')));
  auto second = nlohmann::json::parse(written.substr(written.find('\n') + 1));
  EXPECT_EQ(
      first,
      nlohmann::json::parse(
          R"({"label":"train","step":1,"total":10,"values":{"loss":2.5,"tok/s":12345},"elapsed":0})"));
  EXPECT_EQ(
      second,
      nlohmann::json::parse(
          R"({"label":"train","step":2,"total":10,"values":{"loss":null},"elapsed":2,"eta":16})"));
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
            "--progress: 'plian' is not a progress style; did you mean 'plain'?");
  EXPECT_EQ(mistake([] { parse_progress("x"); }),
            "--progress: 'x' is not a progress style; one of: auto, bar, plain, json, off");
}

}  // namespace longbow
