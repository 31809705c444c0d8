// `list` and `describe`: what scripts and the pages in docs/ rely on.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "longbow/attention/mechanism.h"
#include "longbow/core/columns.h"
#include "longbow/data/readers/source.h"
#include "longbow/tasks/task.h"
#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::set<std::string> keys_of(const json& map) {
  std::set<std::string> keys;
  for (const auto& [key, value] : map.items()) keys.insert(key);
  return keys;
}

TEST(ListCommand, GivesEveryRowWithItsPromises) {
  const auto outcome = Workspace().run({"list", "--json"});
  ASSERT_EQ(outcome.code, 0);
  const auto rows = json::parse(outcome.out);
  ASSERT_EQ(rows.size(), mechanisms().size());
  for (const auto& row : rows) {
    SCOPED_TRACE(row.dump());
    for (const auto* key : {"name", "family", "paper", "cost"})
      EXPECT_TRUE(row.at(key).is_string());
    const auto& promises = row.at("promises");
    EXPECT_EQ(keys_of(promises),
              (std::set<std::string>{"padding", "future", "bidirectional", "cross", "globals",
                                     "decode", "positional", "time_exponent", "memory_exponent"}));
    for (const auto* key : {"bidirectional", "cross", "globals", "decode", "positional"})
      EXPECT_TRUE(promises.at(key).is_boolean()) << key;
    for (const auto* key : {"time_exponent", "memory_exponent"})
      EXPECT_TRUE(promises.at(key).is_number()) << key;
    EXPECT_TRUE(row.at("rotary").is_boolean());
    EXPECT_TRUE(row.at("variants").is_array());
    for (const auto& option : row.at("options"))
      EXPECT_EQ(keys_of(option),
                (std::set<std::string>{"name", "type", "default", "range", "meaning"}));
  }
}

TEST(ListCommand, GivesExponentsOfTheMasksThatThereAre) {
  std::map<std::string, json> rows;
  for (const auto& row : json::parse(Workspace().run({"list", "--json"}).out))
    rows[row.at("name")] = row;
  const auto& both = rows.at("transformer_ls");
  EXPECT_EQ(both.at("exponents"), json::parse(R"({"bidirectional": {"time": 1, "memory": 1},
                                                  "causal": {"time": 1.5, "memory": 1.5}})"));
  EXPECT_EQ(both.at("promises").at("time_exponent"), 1.5) << "whatever the mask is";
  EXPECT_EQ(keys_of(rows.at("transformer_xl").at("exponents")), std::set<std::string>{"causal"});
  EXPECT_EQ(keys_of(rows.at("fnet").at("exponents")), std::set<std::string>{"bidirectional"});
}

TEST(ListCommand, TellsTheFiveMechanismsApart) {
  std::map<std::string, json> promises;
  for (const auto& row : json::parse(Workspace().run({"list", "--json"}).out))
    promises[row.at("name")] = row.at("promises");
  EXPECT_EQ(promises.at("softmax").at("time_exponent"), 2);
  EXPECT_LT(promises.at("linear").at("time_exponent"), 2);
  EXPECT_EQ(promises.at("linear").at("future"), "exact");
  EXPECT_EQ(promises.at("linformer").at("future"), "exact");
  EXPECT_EQ(promises.at("fnet").at("future"), "refused");
  EXPECT_EQ(promises.at("linformer").at("cross"), true);
  EXPECT_EQ(promises.at("local").at("decode"), true);
  EXPECT_EQ(promises.at("fnet").at("padding"), "contents");
}

TEST(ListCommand, PrintsATableForPeopleAndOneForDocuments) {
  const Workspace here;
  const auto plain = lines_of(here.run({"list"}).out);
  const auto markdown = lines_of(here.run({"list", "--markdown"}).out);
  EXPECT_EQ(plain.at(mechanisms().size() + 2), "") << "the table ends there";
  ASSERT_EQ(markdown.size(), mechanisms().size() + 2);
  EXPECT_EQ(markdown[0],
            "| mechanism | family | cost | padding | future | cross | decode | time |");
  EXPECT_TRUE(plain[0].starts_with("mechanism "));
}

TEST(ListCommand, FitsATerminalAndExplainsItsColumns) {
  const auto text = Workspace().run({"list"}).out;
  for (const auto& line : lines_of(text)) EXPECT_LE(columns_of(line), 100u) << line;
  for (const auto* name : {"padding", "future", "cross", "decode", "time, memory"})
    EXPECT_NE(text.find("\n" + std::string(name) + " "), std::string::npos) << name;
  for (const auto* word : {"invisible:", "contents:", "visible:", "refused:", "exact:", "rounded:",
                           "frozen:", "longbow describe NAME"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  EXPECT_TRUE(
      text.ends_with("\nModels that change the length are objectives: longbow describe characters, "
                     "perceiver, perceiver_ar\n"))
      << text;
}

// Whatever a row holds, its columns begin where those of the heading do.
TEST(ListCommand, ColumnsStandBelowEachOther) {
  auto lines = lines_of(Workspace().run({"list"}).out);
  lines.resize(mechanisms().size() + 2);  // the legend follows
  const auto& rule = lines.at(1);
  std::vector<size_t> starts = {0};
  for (size_t at = 0; (at = rule.find("  ", at)) != std::string::npos; at += 2)
    starts.push_back(at + 2);
  ASSERT_EQ(starts.size(), 8u);
  for (const auto& line : lines) {
    SCOPED_TRACE(line);
    std::vector<std::string> characters;
    for (const char c : line) {
      if ((c & 0xC0) != 0x80) characters.emplace_back();
      characters.back() += c;
    }
    for (const auto start : starts) {
      EXPECT_NE(characters.at(start), " ");
      if (start > 0) {
        EXPECT_EQ(characters.at(start - 1) + characters.at(start - 2), "  ");
      }
    }
  }
}

TEST(DescribeCommand, NamesOptionsWithDefaultRangeAndMeaning) {
  const Workspace here;
  const auto outcome = here.run({"describe", "linformer"});
  ASSERT_EQ(outcome.code, 0);
  for (const auto* part :
       {"linformer: Keys and values are projected", "exact when rank = M",
        "docs/mechanisms/linformer.md", "rank            integer [default 64, 1..65536]: slots"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  const auto row = json::parse(here.run({"describe", "linformer", "--json"}).out);
  EXPECT_EQ(row.at("name"), "linformer");
  EXPECT_FALSE(row.at("exact").get<std::string>().empty());
}

TEST(DescribeCommand, AloneSaysWhatCanBeDescribed) {
  const Workspace here;
  const auto text = here.run({"describe"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const auto& line : lines_of(text.out)) EXPECT_LE(columns_of(line), 100u) << line;
  const auto all = json::parse(here.run({"describe", "--json"}).out);
  EXPECT_EQ(lines_of(here.run({"describe", "--markdown"}).out).size(), all.size() + 2);
  std::set<std::string> kinds;
  for (const auto& one : all) {
    const auto name = one.at("name").get<std::string>();
    EXPECT_NE(text.out.find("\n  " + name + " "), std::string::npos) << name;
    kinds.insert(one.at("kind").get<std::string>());
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"mechanism", "part", "data set", "objective"}));
  for (const auto* name : {"linformer", "train", "recall", "masked_lm", "config"})
    EXPECT_FALSE(printed(DescribeCommand{.name = name}).empty()) << name;
}

TEST(DescribeCommand, KnowsThePartsOfAConfig) {
  const Workspace here;
  for (const auto& [name, part] : std::map<std::string, std::string>{
           {"train", "  train.batch_size                integer [default 32, 1..1000000]: samples"},
           {"recall", "  data.recall.keys      integer [default 32, 1..60000]: different keys"},
           {"classification", "model.metric "},
           {"run", "  task      string [default \"\"]: required: the data set"}}) {
    const auto outcome = here.run({"describe", name});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  }
  const auto whole = here.run({"describe", "config"}).out;
  EXPECT_NE(whole.find("\nreverse (data set): reversal"), std::string::npos);
}

TEST(DescribeCommand, GivesThePartsOfAConfigAsJsonAndMarkdown) {
  const Workspace here;
  const auto start = json::parse(here.run({"describe", "start", "--json"}).out);
  EXPECT_EQ(keys_of(start), (std::set<std::string>{"name", "kind", "summary", "options"}));
  EXPECT_EQ(start.at("kind"), "part");
  EXPECT_EQ(start.at("options").at(0).at("name"), "start.from");
  EXPECT_EQ(keys_of(start.at("options").at(0)),
            (std::set<std::string>{"name", "type", "default", "range", "meaning"}));
  EXPECT_TRUE(json::parse(here.run({"describe", "config", "--json"}).out).is_array());
  const auto table = lines_of(here.run({"describe", "start", "--markdown"}).out);
  EXPECT_EQ(table.size(), start.at("options").size() + 2);
  EXPECT_EQ(table.at(0), "| key | type | default | range | meaning |");
}

TEST(DescribeCommand, AnUnknownNameIsComparedWithAllKinds) {
  const Workspace here;
  for (const auto& [name, near] : std::map<std::string, std::string>{{"casual_lm", "causal_lm"},
                                                                     {"linfomer", "linformer"},
                                                                     {"listop", "listops"},
                                                                     {"pretain", "pretrain"},
                                                                     {"confg", "config"}}) {
    const auto outcome = here.run({"describe", name});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "longbow: unknown name '" + name + "'; did you mean '" + near + "'?\n");
  }
}

// `described` is what a page in docs/ holds between its marks.
void expect_fresh(const std::string& page, const std::string& described) {
  std::ifstream stream(fs::path(LONGBOW_SOURCE_DIR) / "docs" / page);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  ASSERT_FALSE(text.empty()) << "no page " << page;
  const auto call = "longbow describe " + described + " --markdown";
  const auto generated = printed(DescribeCommand{.name = described, .markdown = true});
  ASSERT_FALSE(generated.empty());
  EXPECT_NE(text.find("<!-- generated: " + call + " -->\n" + generated + "<!-- end -->\n"),
            std::string::npos)
      << page << " is stale; run scripts/update-docs, which puts in what `" << call << "` prints";
}

TEST(DescribeCommand, ThePagesInDocsAreNotStale) {
  for (const auto& mechanism : mechanisms())
    expect_fresh("mechanisms/" + mechanism.name + ".md", mechanism.name);
  for (const auto& source : data_sources())
    expect_fresh("data/" + source.name + ".md", source.name);
  for (const auto& objective : objectives())
    expect_fresh("objectives/" + objective.name + ".md", objective.name);
  expect_fresh("config.md", "config");
}

}  // namespace
}  // namespace longbow::cli
