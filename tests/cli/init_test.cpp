// `init`: what it prints is a config that learns, with the meaning of every key.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "longbow/arena/plan.h"
#include "longbow/cli/starter.h"
#include "longbow/core/columns.h"
#include "tests/cli/asked.h"

namespace longbow::cli {
namespace {

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& source : data_sources()) names.push_back(source.name);
  for (const auto& objective : objectives()) names.push_back(objective.name);
  return names;
}

TEST(InitCommand, AloneSaysWhatCanBeAskedFor) {
  const auto text = answered(Workspace(), {"init"});
  EXPECT_NE(text.find("longbow init recall > recall.yaml\n"), std::string::npos);
  for (const auto& name : all_names())
    EXPECT_NE(text.find("\n  " + name + " "), std::string::npos) << name;
  for (const auto& line : lines_of(text)) EXPECT_LE(columns_of(line), 100u) << line;
}

TEST(InitCommand, ExplainsEveryKeyOfAConfigThatCanBeRead) {
  const Workspace here;
  const std::regex key("^ *[a-z_0-9]+: [^ ].*");  // with a value: a map has keys of its own
  for (const auto& name : all_names()) {
    SCOPED_TRACE(name);
    const auto text = printed(InitCommand{.name = name, .file = ""});
    const auto config = read_model_config(parse_yaml(text, "init.yaml"));
    EXPECT_TRUE(config.task == name || config.objective == name);
    EXPECT_EQ(parse_yaml(text, "init.yaml"), find_starter(name).config);
    for (const auto& line : lines_of(text)) {
      EXPECT_LE(columns_of(line), 100u) << line;
      EXPECT_TRUE(!std::regex_match(line, key) || line.find("  # ") != std::string::npos) << line;
    }
  }
  const auto text = answered(here, {"init", "recall"});
  EXPECT_NE(text.find("# model width C [default 64]\n"), std::string::npos) << text;
}

// The table of the README is made from configs/quick.yaml, and its first commands are `init recall`
// and `train`: both must be the same task.
TEST(InitCommand, TheTasksOfTheQuickArenaAreThoseThatItGives) {
  const auto quick =
      load_config((std::filesystem::path(LONGBOW_SOURCE_DIR) / "configs/quick.yaml").string());
  for (const auto* task : {"listops", "recall"}) {
    auto arena = merged(*quick.find("common"), *quick.find("tasks")->find(task));
    auto own = find_starter(task).config;
    for (const auto* part : {"data", "model", "train"}) {
      SCOPED_TRACE(std::string(task) + " " + part);
      auto &left = arena[part], &right = own[part];
      std::erase_if(right.entries, [](const auto& entry) { return entry.first == "attention"; });
      const auto sorted = [](Node& node) {
        std::sort(node.entries.begin(), node.entries.end(),
                  [](const auto& a, const auto& b) { return a.first < b.first; });
      };
      sorted(left);
      sorted(right);
      EXPECT_EQ(to_yaml(left), to_yaml(right));
    }
  }
}

TEST(InitCommand, WhatItPrintsForRecallLearns) {
  const Workspace here;
  here.write("recall.yaml", answered(here, {"init", "recall"}));
  const auto outcome = here.run({"train", "recall.yaml", "--out", "run", "--progress", "off"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto result = nlohmann::json::parse(here.read("run/results.json"));
  EXPECT_GT(result.at("score"), 0.9) << "a guess is right one time in eight";
}

// A CSV of one's own, from the file to an answer.
TEST(InitCommand, ATableOfOnesOwnTrainsAndAnswers) {
  const Workspace here;
  std::string rows = "id,comment,mood\n";
  const std::vector<std::string> good = {"great", "lovely", "superb"}, bad = {"awful", "dull"};
  for (size_t i = 0; i < 300; ++i) {
    const auto& words = i % 2 ? good : bad;
    rows += std::to_string(i) + ",\"The film, \"\"part " + std::to_string(i % 7) + "\"\", was " +
            words[i % words.size()] + " and " + words[(i / 3) % words.size()] + "\"," +
            (i % 2 ? "happy" : "sad") + "\r\n";
  }
  here.write("my.csv", rows);
  setenv("LONGBOW_CACHE", here.path("cache").c_str(), 1);
  here.write("my.yaml", answered(here, {"init", "table", "my.csv"}));
  const auto start = std::chrono::steady_clock::now();
  const auto trained = here.run({"train", "my.yaml", "--out", "run", "--progress", "off"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_GT(nlohmann::json::parse(here.read("run/results.json")).at("score"), 0.9);
  std::filesystem::remove(here.path("my.csv"));
  std::filesystem::remove_all(here.path("cache"));
  here.write("in.txt", "It was lovely and great\nAn awful evening\n");
  const auto said = objects_of(answered(here, {"predict", "run", "--file", "in.txt", "--json"}));
  EXPECT_EQ(said.at(0).at("label"), "happy");
  EXPECT_EQ(said.at(1).at("label"), "sad");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
  EXPECT_EQ(error_line(here, {"init", "recall", "my.csv"}),
            "my.csv: recall takes no file of your own; one of: table, lines, parallel, questions");
}

TEST(InitCommand, NamesAFileOfOnesOwn) {
  const Workspace here;
  std::filesystem::create_directory(here.path("texts"));
  for (const auto* name : {"a.txt", "b.en", "b.de", "c.json"})
    here.write(std::string("texts/") + name, "x\n");
  const auto data = [&](const std::string& set, const std::string& file) {
    const auto config = parse_yaml(answered(here, {"init", set, "texts/" + file}), "init.yaml");
    EXPECT_EQ(config.find("data")->find("path")->text, "texts");
    return to_json(*config.find("data")->find(set));
  };
  EXPECT_EQ(data("lines", "a.txt"), R"({"train":"a.txt"})");
  EXPECT_EQ(data("parallel", "b.en"), R"({"train":"b","source":"en","target":"de"})");
  EXPECT_EQ(data("questions", "c.json"), R"({"train":"c.json"})");
  EXPECT_EQ(error_line(here, {"init", "parallel", "texts/a.txt"}),
            "texts/a.txt: there is no file beside it with another ending; name the sources, as "
            "train.en beside train.de");
}

TEST(InitCommand, KeepsTheSyllablesOfHangul) {
  const Workspace here;
  here.write("ko.csv", "text,label\n오늘은 맑음,good\n비가 옴,bad\n");
  here.write("en.csv", "text,label\nsunny,good\nrain,bad\n");
  here.write("ko.json", "{\"data\": [{\"title\": \"\ud55c\uad6d\"}]}");
  here.write("escaped.json", R"({"data": [{"title": "\ud55c\uad6d"}]})");
  here.write("path.json", R"({"data": [{"title": "C:\user \u00e9"}]})");
  here.write("ko.txt", "오늘은 맑음\n");
  here.write("p.en", "today\n");
  here.write("p.ko", "오늘\n");
  const auto tokenizer = [&](const std::string& set, const std::string& file) {
    const auto config = parse_yaml(answered(here, {"init", set, file}), "init.yaml");
    const auto* found = config.find("data")->find("tokenizer");
    return found ? to_json(*found) : "none";
  };
  EXPECT_EQ(tokenizer("table", "ko.csv"), R"({"lowercase":false})");
  EXPECT_EQ(tokenizer("table", "en.csv"), "none");
  EXPECT_EQ(tokenizer("questions", "ko.json"), R"({"lowercase":false})");
  EXPECT_EQ(tokenizer("questions", "escaped.json"), R"({"lowercase":false})");
  EXPECT_EQ(tokenizer("questions", "path.json"), "none");
  EXPECT_EQ(tokenizer("lines", "ko.txt"), R"({"train":"byte_bpe","vocabulary":4000})");
  EXPECT_EQ(tokenizer("parallel", "p.ko"), R"({"train":"bpe","vocabulary":8000})");
  const auto text = answered(here, {"init", "table", "ko.csv"});
  EXPECT_NE(text.find("lowercase: false"), std::string::npos) << text;
  EXPECT_NE(text.find("Hangul"), std::string::npos) << text;
  here.write("ko.yaml", text);
  (void)read_run_config(load_config(here.path("ko.yaml").string()));
}

// Shells make the file that a config is printed to before the program runs.
TEST(InitCommand, FindsTheFileOfTheTranslations) {
  const Workspace here;
  for (const auto* name : {"train.en", "train.de", "train.log", "packed.en.gz", "packed.de.xz"})
    here.write(name, "x\n");
  for (const auto* name : {"train.yaml", "train.txt"}) here.write(name, "");
  const auto found = [&](const std::string& file) {
    const auto config = parse_yaml(answered(here, {"init", "parallel", file}), "init.yaml");
    return to_json(*config.find("data")->find("parallel"));
  };
  EXPECT_EQ(found("train.en"), R"({"train":"train","source":"en","target":"de"})");
  EXPECT_EQ(found("packed.en.gz"), R"({"train":"packed","source":"en","target":"de"})");
  here.write("train.fr", "x\n");
  EXPECT_EQ(error_line(here, {"init", "parallel", "train.en"}),
            "train.en: there are 2 files beside it with another ending: de, fr; write a config by "
            "hand: longbow init parallel");
}

TEST(InitCommand, AnUnknownNameIsOneLine) {
  EXPECT_EQ(error_line(Workspace(), {"init", "recal"}),
            "unknown name 'recal'; did you mean 'recall'?");
  EXPECT_EQ(error_line(Workspace(), {"init", "maskedlm"}),
            "unknown name 'maskedlm'; did you mean 'masked_lm'?");
}

}  // namespace
}  // namespace longbow::cli
