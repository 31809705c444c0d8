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
