#include "longbow/corpus/files/text_files.h"

#include <gtest/gtest.h>

#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

TEST(TextFiles, ListsTheTextsBelowAFolderInOrder) {
  const Scratch scratch;
  for (const auto* name : {"b.txt", "a.txt.xz", "in/c.txt.gz", "in/d.csv", ".hidden.txt",
                           ".git/e.txt", "in/deeper/f.txt", "txt"})
    scratch.write(name, "x");
  std::filesystem::create_directory(scratch.path("folder.txt"));
  EXPECT_EQ(
      text_files(scratch.str()),
      (std::vector<std::string>{scratch.path("a.txt.xz"), scratch.path("b.txt"),
                                scratch.path("in/c.txt.gz"), scratch.path("in/deeper/f.txt")}));
}

TEST(TextFiles, TakesAFileAsItIs) {
  EXPECT_EQ(text_files("some/where.csv"), std::vector<std::string>{"some/where.csv"});
}

TEST(TextFiles, RefusesAFolderWithoutTexts) {
  const Scratch scratch;
  scratch.write("in/a.csv", "x");
  EXPECT_EQ(scratch.mistake([&] { text_files(scratch.path("in")); }),
            "in: no text files in this folder; it should hold *.txt, *.txt.gz or *.txt.xz");
}

}  // namespace
}  // namespace longbow::corpus
