#include "longbow/core/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/core/support.h"

namespace longbow {

TEST(File, WhatIsWrittenReadsBack) {
  auto path = (scratch() / "a.bin").string();
  std::string bytes("\0\n\xff text", 8);
  write_file(path, "first");
  write_file(path, bytes);
  EXPECT_EQ(read_file(path), bytes);
}

TEST(File, AWriteLeavesNothingBeside) {
  auto folder = scratch();
  write_file(folder / "a.txt", "a");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(File, AReaderNeverSeesHalfAFile) {
  auto path = (scratch() / "a.txt").string();
  std::string one(300000, '1'), two(300000, '2');
  write_file(path, one);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write_file(path, i % 2 ? one : two);
  });
  for (int i = 0; i < 200; ++i) {
    auto seen = read_file(path);
    EXPECT_TRUE(seen == one || seen == two);
  }
  writer.join();
}

TEST(File, AppendsWholeLines) {
  auto path = (scratch() / "metrics.jsonl").string();
  append_line(path, "{\"step\":1}");
  append_line(path, "{\"step\":2}");
  EXPECT_EQ(read_file(path), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(File, WritesThroughALink) {
  auto folder = scratch();
  write_file(folder / "real.txt", "old");
  std::filesystem::create_symlink(folder / "real.txt", folder / "link.txt");
  write_file(folder / "link.txt", "new");
  EXPECT_EQ(read_file(folder / "real.txt"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.txt"));
}

TEST(File, MistakesNameThePathAndTheReason) {
  auto folder = scratch().string();
  EXPECT_EQ(mistake([&] { read_file("/nowhere/a"); }),
            "/nowhere/a: cannot be read; No such file or directory");
  EXPECT_EQ(mistake([&] { read_file(folder); }), folder + ": cannot be read; Is a directory");
  EXPECT_EQ(mistake([&] { write_file("/nowhere/a", ""); }),
            "/nowhere/a: cannot be written; there is no folder '/nowhere'");
  EXPECT_EQ(mistake([&] { append_line("/nowhere/a", ""); }),
            "/nowhere/a: cannot be written; there is no folder '/nowhere'");
  EXPECT_EQ(mistake([&] { write_file("/dev/null", ""); }),
            "/dev/null: cannot be written; it is not a regular file");
  EXPECT_EQ(mistake([&] { sha256_of_file("/nowhere/a"); }),
            "/nowhere/a: cannot be read; No such file or directory");
}

TEST(File, SaysBeforehandWhatCannotBeWritten) {
  const auto folder = scratch();
  const auto refused = [](const std::string& path) {
    const auto before = mistake([&] { require_writable(path); });
    EXPECT_EQ(before, mistake([&] { write_file(path, ""); }));
    return before;
  };
  EXPECT_EQ(refused("/nowhere/a"), "/nowhere/a: cannot be written; there is no folder '/nowhere'");
  EXPECT_EQ(refused(folder.string()),
            folder.string() + ": cannot be written; it is not a regular file");
  write_file(folder / "there", "");
  require_writable(folder / "there");
  require_writable(folder / "new");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  std::filesystem::permissions(folder, std::filesystem::perms::owner_read);
  constexpr uid_t kNobody = 65534;
  const bool is_root = geteuid() == 0;
  if (is_root) {  // root may write anywhere
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const auto message = refused(folder / "new");
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  EXPECT_EQ(message, (folder / "new").string() + ": cannot be written; Permission denied");
}

TEST(Sha256, GivesThePublishedAnswers) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  auto path = (scratch() / "a.bin").string();
  for (size_t size : {0, 55, 56, 63, 64, 65, 262144, 600001}) {
    std::string bytes(size, 'x');
    write_file(path, bytes);
    EXPECT_EQ(sha256_of_file(path), sha256(bytes)) << size;
  }
}

TEST(Sha256, OfAFolderCountsNamesAndContents) {
  const auto root = testing::TempDir() + "sha256_of_folder";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/one/b");
  std::filesystem::create_directories(root + "/two");
  write_file(root + "/one/a", "x");
  write_file(root + "/one/b/c", "y");
  const auto whole = sha256_of_folder(root + "/one");
  std::filesystem::rename(root + "/one", root + "/two/moved");
  EXPECT_EQ(sha256_of_folder(root + "/two/moved"), whole) << "its own name does not count";
  write_file(root + "/two/moved/a", "z");
  const auto changed = sha256_of_folder(root + "/two/moved");
  EXPECT_NE(changed, whole);
  std::filesystem::rename(root + "/two/moved/a", root + "/two/moved/d");
  EXPECT_NE(sha256_of_folder(root + "/two/moved"), changed);
  std::filesystem::remove_all(root);
}

}  // namespace longbow
