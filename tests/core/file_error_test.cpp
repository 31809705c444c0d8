#include "longbow/core/file_error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "longbow/core/error.h"

namespace longbow {
namespace {

TEST(FailAt, IsTheUsersWhereAnotherPathHelps) {
  try {
    fail_at("a/b", "cannot be written", EACCES);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "a/b: cannot be written; Permission denied");
  }
}

TEST(FailAt, IsTheMachinesWhereTheDiskIsFull) {
  try {
    fail_at("a/b", "cannot be written", ENOSPC);
    FAIL();
  } catch (const UserError& error) {
    FAIL() << error.what();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "a/b: cannot be written; No space left on device");
  }
}

}  // namespace
}  // namespace longbow
