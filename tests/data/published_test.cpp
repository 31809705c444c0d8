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
