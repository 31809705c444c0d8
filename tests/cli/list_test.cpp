// `list` and `describe`: what scripts and the pages in docs/ rely on.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "longbow/attention/mechanism.h"
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
  ASSERT_EQ(plain.size(), mechanisms().size() + 2);
  ASSERT_EQ(markdown.size(), mechanisms().size() + 2);
  EXPECT_EQ(markdown[0],
            "| mechanism | family | cost | padding | future | cross | decode | time |");
  EXPECT_TRUE(plain[0].starts_with("mechanism "));
}

// Whatever a row holds, its columns begin where those of the heading do.
TEST(ListCommand, ColumnsStandBelowEachOther) {
  const auto lines = lines_of(Workspace().run({"list"}).out);
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
        "docs/mechanisms/linformer.md", "rank           integer [default 64, 1..65536]: slots"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  const auto row = json::parse(here.run({"describe", "linformer", "--json"}).out);
  EXPECT_EQ(row.at("name"), "linformer");
  EXPECT_FALSE(row.at("exact").get<std::string>().empty());
}

TEST(DescribeCommand, ThePagesInDocsAreNotStale) {
  const Workspace here;
  for (const auto& mechanism : mechanisms()) {
    const auto file = fs::path(LONGBOW_SOURCE_DIR) / "docs/mechanisms" / (mechanism.name + ".md");
    std::ifstream stream(file);
    const std::string page(std::istreambuf_iterator<char>(stream), {});
    ASSERT_FALSE(page.empty()) << "no page " << file;
    const auto generated = here.run({"describe", mechanism.name, "--markdown"}).out;
    ASSERT_FALSE(generated.empty());
    EXPECT_NE(page.find(generated), std::string::npos)
        << file << " is stale; put in what `longbow describe " << mechanism.name
        << " --markdown` prints:\n"
        << generated;
  }
}

}  // namespace
}  // namespace longbow::cli
