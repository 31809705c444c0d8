#include "longbow/cli/reference.h"

#include <gtest/gtest.h>

#include <set>

#include "longbow/arena/plan.h"
#include "longbow/attention/mechanism.h"

namespace longbow::cli {
namespace {

const Section& section(const std::string& name) {
  for (const auto& one : config_sections())
    if (one.name == name) return one;
  throw std::runtime_error("no section " + name);
}

std::set<std::string> names_of_keys(const std::vector<FieldDoc>& keys) {
  std::set<std::string> names;
  for (const auto& key : keys) names.insert(key.name);
  return names;
}

void add_leaves(const Node& node, const std::string& prefix, std::set<std::string>& leaves) {
  for (const auto& [name, value] : node.entries) {
    const auto key = prefix + name;
    if (value.is_map() && !value.entries.empty())
      add_leaves(value, key + ".", leaves);
    else
      leaves.insert(key);
  }
}

std::string page(const std::string& name) {
  return page_of(section(name));
}

std::string row_of(const FieldDoc& key) {
  const auto table = markdown_rows({key}, "key");
  return table.substr(table.find("| `"));
}

TEST(Reference, NoTwoThingsHaveOneName) {
  std::set<std::string> names = {"config"};
  for (const auto& mechanism : mechanisms())
    EXPECT_TRUE(names.insert(mechanism.name).second) << mechanism.name;
  for (const auto& one : config_sections()) EXPECT_TRUE(names.insert(one.name).second) << one.name;
}

// The writer knows every key of a run, whatever the sections are made from.
TEST(Reference, HasEveryKeyOfARun) {
  std::set<std::string> wanted, found;
  add_leaves(written(RunConfig()), "", wanted);
  for (const auto& one : config_sections())
    if (one.kind != "objective" && one.name != "model" && one.name != "arena")
      found.merge(names_of_keys(one.keys));
  for (const auto& key : wanted) EXPECT_TRUE(found.count(key)) << key;
  EXPECT_TRUE(wanted.count("train.adafactor.epsilon"));
  EXPECT_TRUE(wanted.count("data.NAME")) << "the options of a data set are its own";
}

TEST(Reference, HasASectionForEveryDataSetAndObjective) {
  for (const auto& source : data_sources()) EXPECT_EQ(section(source.name).kind, "data set");
  for (const auto& objective : objectives())
    EXPECT_EQ(section(objective.name).keys.size(), objective.options.size());
}

TEST(Reference, TheConfigPageHasThePartsAlone) {
  const auto text = config_markdown();
  for (const auto& one : config_sections())
    EXPECT_EQ(text.find("## " + one.name + "\n") != std::string::npos, one.kind == "part")
        << one.name;
}

TEST(Reference, APageSaysWhatTheRowStates) {
  EXPECT_NE(page("recall").find("| made for | [classification](../objectives/classification.md) |"),
            std::string::npos);
  EXPECT_NE(page("translation").find("| places for a mechanism | encoder, decoder, cross |"),
            std::string::npos);
  EXPECT_NE(page("masked_lm").find("| pretrains an encoder | yes |"), std::string::npos);
}

TEST(Reference, EveryKeySaysWhatItMeans) {
  for (const auto& one : config_sections()) {
    EXPECT_FALSE(one.keys.empty()) << one.name;
    EXPECT_FALSE(one.summary.empty()) << one.name;
    for (const auto& key : one.keys) EXPECT_GT(key.meaning.size(), 4u) << key.name;
  }
}

// What an objective's table leaves out stands word for word in that of the model.
TEST(Reference, AnObjectiveLeavesOutOnlyWhatTheModelSays) {
  const auto model = page("model");
  for (const auto& objective : objectives()) {
    const auto own = page(objective.name);
    for (const auto& key : section(objective.name).keys) {
      SCOPED_TRACE(objective.name + " " + key.name);
      if (own.find("| `" + key.name + "` |") != std::string::npos) continue;
      auto shared = key;
      for (const std::string side : {"model.encoder.", "model.decoder."})
        if (key.name.starts_with(side)) shared.name = "model." + key.name.substr(side.size());
      EXPECT_NE(model.find(row_of(shared)), std::string::npos);
    }
  }
}

TEST(Reference, AnObjectiveShowsDefaultsOfItsOwn) {
  EXPECT_NE(page("causal_lm").find("| `model.causal` | boolean | `true` |"), std::string::npos);
  EXPECT_NE(page("characters").find("| `model.width` | integer | `768` |"), std::string::npos);
  EXPECT_EQ(page("masked_lm").find("| `model.width` |"), std::string::npos);
}

TEST(Reference, ADecoderNamesTheKeysThatItHasOfAModel) {
  const auto text = page("translation");
  EXPECT_NE(text.find("`model.encoder` has the keys of [model](../config.md#model). "),
            std::string::npos);
  EXPECT_NE(
      text.find("`model.decoder` has of the keys of [model](../config.md#model) `width`, `heads`, "
                "`head_width`, `layers`, `max_length`, `bias`, `embedding_dropout`, "
                "`block.*`. "),
      std::string::npos)
      << text.substr(0, 400);
  EXPECT_NE(text.find("| `model.decoder.attention` |"), std::string::npos);
}

TEST(Reference, RowsShowDefaultAndRangeAndKeepBarsApart) {
  const std::vector<FieldDoc> rows = {{"a", "integer", "3", "1..9", "first"},
                                      {"name", "string", "", "", "x | y"},
                                      {"part", "one of p|q", "p", "", "below"}};
  EXPECT_EQ(text_rows(rows),
            "  a    integer [default 3, 1..9]: first\n"
            "  name string [default \"\"]: x | y\n"
            "  part one of p|q [default p]: below\n");
  EXPECT_EQ(markdown_rows(rows, "key"),
            "| key | type | default | range | meaning |\n|---|---|---|---|---|\n"
            "| `a` | integer | `3` | 1..9 | first |\n"
            "| `name` | string | `\"\"` |  | x \\| y |\n"
            "| `part` | one of p, q | `p` |  | below |\n");
}

}  // namespace
}  // namespace longbow::cli
