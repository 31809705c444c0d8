#include "longbow/core/file_name.h"

#include <gtest/gtest.h>

namespace longbow {

TEST(FileName, IsNoPath) {
  using namespace std::literals;
  for (const auto name : {"train.tsv"sv, "a b"sv, "..a"sv, "설명"sv})
    EXPECT_TRUE(is_file_name(name));
  for (const auto name :
       {""sv, "."sv, ".."sv, "/etc/passwd"sv, "../x"sv, "a/b"sv, "a\\b"sv, "a\0b"sv})
    EXPECT_FALSE(is_file_name(name)) << name;
}

}  // namespace longbow
