#include "longbow/data/encoding/published.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

TEST(Published, TakesTheFirstNameThatIsThereInAnyPacking) {
  const Folder folder;
  folder.write("b.json.xz", "");
  folder.write("b.json.gz", "");
  folder.write("c.json", "");
  EXPECT_EQ(published_file("x", folder.str(), {"a.json", "b.json", "c.json"}),
            folder.file("b.json.xz"));
  folder.write("b.json", "");
  EXPECT_EQ(published_file("x", folder.str(), {"a.json", "b.json"}), folder.file("b.json"));
  EXPECT_EQ(find_packed_or_plain(folder.str(), "d.json"), std::nullopt);
}

TEST(Published, KnowsAFileHoweverItIsSpelt) {
  const Folder folder;
  for (const auto* name : {"a.json", "a.json.xz", "b.json"}) folder.write(name, "");
  const auto is_a = [&](const std::string& path) {
    return is_packed_or_plain(path, folder.str(), "a.json");
  };
  EXPECT_TRUE(is_a(folder.file("a.json")));
  EXPECT_TRUE(is_a(folder.file("a.json.xz"))) << "though there is one that is not packed";
  EXPECT_TRUE(is_a(folder.file("../" + folder.path.filename().string() + "/a.json")));
  EXPECT_FALSE(is_a(folder.file("b.json")));
}

TEST(Published, NamesEveryFileThatWouldDo) {
  const Folder folder;
  EXPECT_EQ(error_of(
                [&] {
                  published_file("x", folder.str(), {"a", "b", "c"});
                },
                folder.str()),
            "a: no such file, nor b, nor c; `longbow data list x` tells which files belong into "
            "data.path");
}

}  // namespace
}  // namespace longbow
