#include "longbow/corpus/files/tar.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "longbow/core/error.h"
#include "tests/support/tar.h"

namespace longbow::corpus {
namespace {

const std::string kEnd(1024, '\0');

using Files = std::vector<std::pair<std::string, std::string>>;
Files read(const std::string& archive, size_t most = 1000) {
  Files files;
  read_tar(
      *open_bytes(archive, "a.tar"), "a.tar", most,
      [&](const std::string& name, std::string_view bytes) { files.emplace_back(name, bytes); });
  return files;
}
std::string mistake(const std::string& archive, size_t most = 1000) {
  try {
    read(archive, most);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tar, GivesTheRegularFilesInTheirOrder) {
  const auto archive = tar_member("train/", "", '5') + tar_member("b.jpg", std::string(513, 'b')) +
                       tar_member("a.jpg", "", '0', "long/path") + tar_member("old", "x", '\0') +
                       tar_member("link", "", '2') + tar_member("header", "30 mtime=1\n", 'x') +
                       kEnd;
  EXPECT_EQ(read(archive),
            (Files{{"b.jpg", std::string(513, 'b')}, {"long/path/a.jpg", ""}, {"old", "x"}}));
  EXPECT_EQ(read(tar_member("a", "1") + kEnd.substr(512)), (Files{{"a", "1"}}));
  EXPECT_EQ(read(kEnd), Files());
}

// A download that stopped there has nothing else that shows it.
TEST(Tar, RefusesAnArchiveThatWasCutOffBetweenTwoFiles) {
  const auto cut = "a.tar: the tar archive is cut off; copy or download the file again";
  EXPECT_EQ(mistake(tar_member("a", "1")), cut);
  EXPECT_EQ(mistake(tar_member("a", "1") + tar_member("b", "2")), cut);
  EXPECT_EQ(mistake(""), cut);
}

TEST(Tar, RefusesWhatIsNotAnArchive) {
  const std::string whole = tar_member("a", "12345");
  EXPECT_EQ(mistake(std::string(600, 'x')),
            "a.tar: is not a tar archive, or is corrupt; copy or download the file again");
  auto changed = whole;
  changed[0] = 'b';
  EXPECT_EQ(mistake(changed),
            "a.tar: is not a tar archive, or is corrupt; copy or download the file again");
  for (const size_t size : {100, 512, 700})
    EXPECT_EQ(mistake(whole.substr(0, size)),
              "a.tar: the tar archive is cut off; copy or download the file again")
        << size;
  EXPECT_EQ(mistake(whole, 4), "a.tar: holds 'a', a file of more than 4 bytes");
}

}  // namespace
}  // namespace longbow::corpus
