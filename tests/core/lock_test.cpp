#include "longbow/core/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

#include "tests/core/support.h"

namespace longbow {
namespace {

TEST(FolderLock, HasOneHolder) {
  const auto folder = (scratch() / "a" / "b").string();
  const auto refused =
      folder + ": another process is writing to it; wait until it ends, or choose another --out";
  {
    const FolderLock lock(folder);
    EXPECT_EQ(mistake([&] { FolderLock second(folder); }), refused);
  }
  EXPECT_FALSE(std::filesystem::exists(folder)) << "nothing was put in it";
  std::filesystem::create_directories(folder);
  { const FolderLock again(folder); }
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "no file is left";
}

TEST(FolderLock, RemovesWhatAKilledProcessLeft) {
  const auto folder = scratch();
  for (const auto* name : {"a.json.12-3.tmp", "b.tmp", "a.json", "12-3.tmp"})
    std::ofstream(folder / name) << "x";
  const FolderLock lock(folder.string());
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"b.tmp", "a.json", "12-3.tmp"}));
}

TEST(FolderLock, LeavesNoEmptyFolderThatItMade) {
  const auto folder = scratch();
  { const FolderLock lock((folder / "runs" / "first").string()); }
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  {
    const FolderLock lock((folder / "runs" / "second").string());
    std::ofstream(folder / "runs" / "kept") << "x";
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "runs" / "kept"));
  EXPECT_FALSE(std::filesystem::exists(folder / "runs" / "second"));
}

TEST(FolderLock, IsFreedByDeath) {
  const auto folder = scratch().string();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder);
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NE(mistake([&] { FolderLock second(folder); }), "no UserError was thrown");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(mistake([&] { FolderLock second(folder); }), "no UserError was thrown");
}

TEST(FolderLock, SaysWhyAFolderCannotBe) {
  const auto file = scratch() / "file";
  std::ofstream(file) << "x";
  EXPECT_EQ(mistake([&] { FolderLock lock(file.string()); }),
            file.string() + ": the folder cannot be made; Not a directory");
  EXPECT_EQ(mistake([&] { FolderLock lock((file / "below").string()); }),
            (file / "below").string() + ": the folder cannot be made; Not a directory");
}

}  // namespace
}  // namespace longbow
