#include "longbow/core/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "longbow/core/file.h"
#include "tests/core/support.h"
#include "tests/support/memory.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "f.yaml");
}
std::string merged_json(const std::string& under, const std::string& over) {
  return to_json(merged(yaml(under), yaml(over)));
}

}  // namespace

TEST(Merged, TheNearerWinsKeyByKey) {
  EXPECT_EQ(merged_json("{a: 1, m: {x: 1, y: 2}, l: [1, 2]}", "{m: {y: 3, z: 4}, l: [9], b: 5}"),
            R"({"a":1,"m":{"x":1,"y":3,"z":4},"l":[9],"b":5})");
  EXPECT_EQ(merged_json("{a: {b: 1}}", "{a: ~}"), R"({"a":null})");
}

TEST(Merged, AnotherNameReplacesTheWholeMap) {
  auto under = "{attention: {name: linformer, rank: 64}}";
  EXPECT_EQ(merged_json(under, "{attention: {name: performer}}"),
            R"({"attention":{"name":"performer"}})");
  EXPECT_EQ(merged_json(under, "{attention: {name: linformer, kv: x}}"),
            R"({"attention":{"name":"linformer","rank":64,"kv":"x"}})");
  EXPECT_EQ(merged_json(under, "{attention: {rank: 32}}"),
            R"({"attention":{"name":"linformer","rank":32}})");
}

TEST(Merged, KeepsThePlaceOfTheWinner) {
  auto both = merged(parse_yaml("a: 1\nb: 2\n", "base.yaml"), parse_yaml("\n\nb: 3\n", "f.yaml"));
  EXPECT_EQ(both.find("a")->place.str(), "base.yaml:1");
  EXPECT_EQ(both.find("b")->place.str(), "f.yaml:3");
}

TEST(LoadConfig, StacksBasesRelativeToTheFile) {
  auto folder = scratch();
  std::filesystem::create_directories(folder / "sub");
  write_file(folder / "root.yaml", "name: root\na: 1\nb: 1\nc: 1\n");
  write_file(folder / "middle.json", "{\"base\": \"root.yaml\", \"b\": 2, \"c\": 2}");
  write_file(folder / "sub/leaf.yaml", "base: ../middle.json\nname: leaf\nc: 3\n");
  auto node = load_config(folder / "sub/leaf.yaml");
  EXPECT_EQ(to_json(node), R"({"name":"leaf","a":1,"b":2,"c":3})");
  EXPECT_EQ(node.find("c")->place.str(), (folder / "sub/leaf.yaml").string() + ":3");
}

TEST(LoadConfig, AnEmptyFileIsAnEmptyMap) {
  auto folder = scratch();
  write_file(folder / "empty.yaml", "");
  EXPECT_TRUE(load_config(folder / "empty.yaml").is_map());
}

TEST(LoadConfig, RefusesCycles) {
  auto folder = scratch();
  write_file(folder / "a.yaml", "x: 1\nbase: b.yaml\n");
  write_file(folder / "b.yaml", "base: ./a.yaml\n");
  EXPECT_EQ(mistake([&] { load_config(folder / "a.yaml"); }),
            (folder / "b.yaml").string() +
                ":1: base './a.yaml' leads back to itself; remove one `base:`");
}

TEST(LoadConfig, AMissingBaseSaysWhoNamedIt) {
  auto folder = scratch();
  write_file(folder / "a.yaml", "x: 1\nbase: gone.yaml\n");
  EXPECT_EQ(mistake([&] { load_config(folder / "a.yaml"); }),
            (folder / "a.yaml").string() + ":2: base " + (folder / "gone.yaml").string() +
                ": cannot be read; No such file or directory; the path is relative to this file");
}

TEST(LoadConfig, RefusesWhatIsNoMap) {
  auto folder = scratch();
  auto path = (folder / "a.yaml").string();
  write_file(path, "- 1\n");
  EXPECT_EQ(
      mistake([&] { load_config(path); }),
      path + ":1: the config is a list, not a map; write its keys below it, each as `key: value`");
  EXPECT_EQ(mistake([&] { load_config("/nowhere/a.yaml"); }),
            "/nowhere/a.yaml: cannot be read; No such file or directory");
  write_file(path, "base: [a]\n");
  EXPECT_EQ(mistake([&] { load_config(path); }),
            path + ":1: base is a list, not a string; write a text, \"\" for an empty one");
}

TEST(LoadConfig, WhatNeverEndsIsNoConfig) {
  EXPECT_EQ(mistake([&] { load_config("/dev/zero"); }),
            "/dev/zero: longer than 1048576 bytes; a config is short; is this another file?");
  EXPECT_LT(peak_bytes([&] { load_config("/dev/zero"); }), int64_t{32} << 20);
}

TEST(LoadConfig, ManyKeysOverManyKeysMergeQuickly) {
  auto folder = scratch();
  std::string under, over = "base: under.yaml\n";
  for (int i = 0; i < 40'000; ++i) {
    under += fmt::format("a{}: 1\n", i);
    over += fmt::format("b{}: 2\n", i);
  }
  write_file(folder / "under.yaml", under);
  write_file(folder / "over.yaml", over + "a7: 3\n");
  const auto start = std::clock();
  const auto both = load_config(folder / "over.yaml");
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
  EXPECT_EQ(both.entries.size(), 80'000);
  EXPECT_EQ(both.find("a7")->text, "3");
}

TEST(Assign, SetsOneKeyAndMakesTheWay) {
  Node node = yaml("{model: {rank: 1, name: x}}");
  assign(node, "model.rank=64");
  assign(node, "model.attention.windows=[1, 2]");
  assign(node, "note=\"a=b\"");
  assign(node, "empty=");
  EXPECT_EQ(
      to_json(node),
      R"({"model":{"rank":64,"name":"x","attention":{"windows":[1,2]}},"note":"a=b","empty":null})");
  EXPECT_EQ(node.find("model")->find("rank")->place.str(), "--set model.rank");
  EXPECT_EQ(node.find("model")->find("attention")->find("windows")->items[1].place.str(),
            "--set model.attention.windows");
}

TEST(Assign, RefusesWhatIsNoAssignment) {
  Node node = yaml("{model: 5}");
  for (const char* text : {"model.rank", "=3", "", ".a=1", "a.=1", "a..b=1"})
    EXPECT_EQ(mistake([&] { assign(node, text); }),
              "--set '" + std::string(text) + "' has no key and value; write --set model.width=64");
  EXPECT_EQ(mistake([&] { assign(node, "model.rank=3"); }),
            "--set model.rank: model is '5', not a map");
  EXPECT_EQ(
      mistake([&] { assign(node, "a=b: c: d"); }),
      "--set a: not valid YAML: illegal map value; check the indentation, colons and brackets");
}

}  // namespace longbow
