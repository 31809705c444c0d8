#include "longbow/data/encoding/cache.h"

#include <chrono>
#include <cstdlib>

#include "tests/data/text_folder.h"

namespace longbow {
namespace {

TEST(CacheFolder, IsTheFirstThatIsSet) {
  const auto* own = std::getenv("LONGBOW_CACHE");
  const std::string before = own ? own : "";
  setenv("LONGBOW_CACHE", "/somewhere", 1);
  EXPECT_EQ(cache_folder("given"), "given");
  EXPECT_EQ(cache_folder(""), "/somewhere");
  unsetenv("LONGBOW_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cache_folder(""), "/xdg/longbow");
  unsetenv("XDG_CACHE_HOME");
  if (own) setenv("LONGBOW_CACHE", before.c_str(), 1);
}

using CachedDataTest = TextFolder;

TEST_F(CachedDataTest, IsListedWithSizeAgeAndWhetherItIsWhole) {
  EXPECT_TRUE(cached_data(in("cache")).empty()) << "there is no folder yet";
  file("t.csv", rows(50));
  (void)load(kTable);
  const auto first = cached_data(in("cache"));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(first[0].name.starts_with("table-")) << first[0].name;
  EXPECT_GT(first[0].bytes, 1000);
  EXPECT_FALSE(first[0].unfinished);
  const auto draft = first[0].name + ".0123456789abcdef.draft";
  make_folder(in("cache/" + draft + "/train"));
  file("cache/" + draft + "/train/tokens.bin", "12345");
  make_folder(in("cache/my-own-things"));
  file("cache/notes.txt", "mine");
  const auto both = cached_data(in("cache"));
  ASSERT_EQ(both.size(), 2u) << "what is not ours is not listed";
  EXPECT_TRUE(both[1].unfinished);
  EXPECT_EQ(both[1].bytes, 5);
}

// Disks for scratch files are purged file by file.
TEST_F(CachedDataTest, AFileThatIsGoneOrChangedIsNamed) {
  file("t.en", "one\ntwo two\n");
  file("t.de", "eins\nzwei zwei\n");
  const std::string config =
      "{name: parallel, tokenizer: {train: words}, "
      "parallel: {train: t, valid: t, test: t, shared: false}}";
  (void)load(config);
  const auto entry = std::filesystem::path(in("cache")) / cached_data(in("cache"))[0].name;
  for (const auto* name :
       {"tokenizer.json", "target_tokenizer.json", "cache.json", "train/samples.json"}) {
    const auto path = (entry / name).string();
    const auto hint = "; remove this entry of the cache: it is made again";
    const auto whole = read_file(path);
    write_file(path, whole.substr(0, whole.size() / 2));
    EXPECT_EQ(message(config), path + ": not what was written" + hint);
    write_file(path, whole);
    EXPECT_EQ(message(config), "no error");
    if (name == std::string("cache.json")) continue;  // without it there is no entry
    std::filesystem::remove(path);
    EXPECT_EQ(message(config), path + ": no such file" + hint);
    write_file(path, whole);
  }
  auto tokenizer = read_file((entry / "tokenizer.json").string());
  tokenizer.replace(tokenizer.find("\"two\""), 5, "\"toe\"");
  write_file((entry / "tokenizer.json").string(), tokenizer);
  EXPECT_TRUE(message(config).ends_with(
      "tokenizer.json: not what was written; remove this entry of the cache: it is made again"));
}

TEST_F(CachedDataTest, WithoutItsCardIsMadeAgain) {
  file("t.csv", rows(50));
  const auto first = load(kTable);
  const auto name = cached_data(in("cache"))[0].name;
  std::filesystem::remove(in("cache/" + name + "/cache.json"));
  ASSERT_EQ(cached_data(in("cache")).size(), 1u);
  EXPECT_TRUE(cached_data(in("cache"))[0].unfinished);
  EXPECT_EQ(load(kTable).checksums, first.checksums);
  ASSERT_EQ(caches(), 1) << "what was left of it is gone";
  EXPECT_FALSE(cached_data(in("cache"))[0].unfinished);
}

TEST_F(CachedDataTest, RemembersItsLastUse) {
  file("t.csv", rows(50));
  (void)load(kTable);
  const auto made = cached_data(in("cache"))[0];
  const auto card = std::filesystem::path(in("cache")) / made.name / "cache.json";
  std::filesystem::last_write_time(card, made.used - std::chrono::hours(72));
  EXPECT_LT(cached_data(in("cache"))[0].used, made.used - std::chrono::hours(71));
  (void)load(kTable);
  EXPECT_GE(cached_data(in("cache"))[0].used, made.used);
}

TEST_F(CachedDataTest, IsRemovedByItsNameAlone) {
  file("t.csv", rows(50));
  (void)load(kTable);
  make_folder(in("cache/my-own-things"));
  for (const auto* name : {"my-own-things", "..", ".", "", "table-0123"}) {
    std::string message;
    try {
      remove_cached_data(in("cache"), name);
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "the cache has no entry '" + std::string(name) +
                           "'; `longbow data cache` lists them");
  }
  remove_cached_data(in("cache"), cached_data(in("cache"))[0].name);
  EXPECT_TRUE(cached_data(in("cache")).empty());
  EXPECT_TRUE(std::filesystem::exists(in("cache/my-own-things")));
}

}  // namespace
}  // namespace longbow
