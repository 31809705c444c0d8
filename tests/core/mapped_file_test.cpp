#include "longbow/core/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/error.h"
#include "longbow/core/file.h"

namespace longbow {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return testing::TempDir() + "mapped_file_" + name; }
};

TEST_F(MappedFileTest, HasTheBytesOfTheFile) {
  write_file(path("bytes"), std::string("\x01\0\0\0\x02\0\0\0", 8));
  const MappedFile file(path("bytes"));
  EXPECT_EQ(file.bytes().size(), 8u);
  EXPECT_EQ(file.as<int32_t>()[0], 1);
  EXPECT_EQ(file.as<int32_t>()[1], 2);
}

TEST_F(MappedFileTest, AnEmptyFileHasNone) {
  write_file(path("empty"), "");
  EXPECT_TRUE(MappedFile(path("empty")).bytes().empty());
}

TEST_F(MappedFileTest, KeepsWhatItMappedWhenTheFileIsReplaced) {
  write_file(path("replaced"), "first");
  const MappedFile file(path("replaced"));
  write_file(path("replaced"), "second one");
  EXPECT_EQ(file.bytes(), "first");
}

TEST_F(MappedFileTest, AMissingFileIsNamed) {
  try {
    const MappedFile file(path("missing"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              path("missing") + ": cannot be read; No such file or directory");
  }
}

}  // namespace
}  // namespace longbow
