#include "longbow/core/folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "tests/core/support.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

TEST(MakeFolder, MakesAllAboveItAndLeavesWhatExists) {
  const auto folder = scratch();
  make_folder((folder / "a/b/").string());
  write_file((folder / "a/b/c").string(), "kept");
  make_folder((folder / "a/b").string());
  EXPECT_EQ(read_file((folder / "a/b/c").string()), "kept");
}

TEST(MakeFolder, AFileInItsPlaceIsOneLine) {
  const auto file = (scratch() / "a").string();
  write_file(file, "");
  EXPECT_EQ(mistake([&] { make_folder(file); }),
            file + ": the folder cannot be made; Not a directory");
  EXPECT_EQ(mistake([&] { make_folder(file + "/b"); }),
            file + "/b: the folder cannot be made; Not a directory");
}

TEST(FileName, IsTheTextWhereItCanBe) {
  EXPECT_EQ(file_name("linformer-64_a+b.c"), "linformer-64_a+b.c");
  EXPECT_EQ(file_name("한글"), "한글");
}

TEST(FileName, NeverLeavesItsFolderAndIsNeverShared) {
  EXPECT_EQ(file_name("a b"), "a%20b");
  EXPECT_EQ(file_name("a%20b"), "a%2520b");
  EXPECT_EQ(file_name(".."), "%2E.");
  EXPECT_EQ(file_name("../../x"), "%2E.%2F..%2Fx");
  EXPECT_EQ(file_name("/etc"), "%2Fetc");
}

TEST(FreePath, CountsUpFromTwo) {
  const auto folder = scratch();
  const auto wanted = (folder / "run").string();
  EXPECT_EQ(free_path(wanted), wanted);
  make_folder(wanted);
  EXPECT_EQ(free_path(wanted), wanted + "-2");
  fs::create_symlink("nowhere", wanted + "-2");
  EXPECT_EQ(free_path(wanted), wanted + "-3");
}

}  // namespace
}  // namespace longbow
