#include "longbow/cli/failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>
#include <regex>
#include <vector>

#include "longbow/core/error.h"
#include "longbow/core/interruption.h"

namespace longbow::cli {
namespace {

Failure failure(const std::function<void()>& act) {
  try {
    act();
  } catch (...) {
    return failure_of(std::current_exception());
  }
  return {.text = "nothing was thrown"};
}

void expect_no_memory(const Failure& found, const std::string& why) {
  EXPECT_EQ(found.code, 1);
  EXPECT_TRUE(found.out_of_memory);
  const std::regex form("not enough memory: " + why + ", [0-9.]+ [KMGTP]iB are available");
  EXPECT_TRUE(std::regex_match(found.text, form)) << found.text;
}

TEST(Failure, OfAUserIsTwo) {
  const auto found = failure([] { throw UserError({"a.yaml", 3}, "rank is 0", "write 1"); });
  EXPECT_EQ(found.text, "a.yaml:3: rank is 0; write 1");
  EXPECT_EQ(found.code, 2);
}

TEST(Failure, OfASignalIsItsNumber) {
  const auto found = failure([] { throw Interrupted(15); });
  EXPECT_EQ(found.code, 143);
}

TEST(Failure, OfAFolderNamesItAndTheReason) {
  const auto found = failure([] { std::filesystem::create_directory("/proc/self/status/x"); });
  EXPECT_EQ(found.text, "/proc/self/status/x: cannot be used; Not a directory");
  EXPECT_EQ(found.code, 2);
}

TEST(Failure, OfMemorySaysHowMuchThereIs) {
  expect_no_memory(failure([] { throw std::bad_alloc(); }), "a list does not fit");
  expect_no_memory(failure([] { std::vector<char>().resize(static_cast<size_t>(-1)); }),
                   "a list has more entries than can be counted");
  expect_no_memory(failure([] {
                     TORCH_CHECK(false,
                                 "[enforce fail at alloc_cpu.cpp:124] err == 0. "
                                 "DefaultCPUAllocator: can't allocate memory: you tried to "
                                 "allocate 400 bytes. Error code 12");
                   }),
                   "a tensor does not fit");
  const auto found = failure([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "full"); });
  EXPECT_EQ(found.text, "full");
  EXPECT_TRUE(found.out_of_memory);
}

TEST(Failure, IsOneShortLineWhateverWasThrown) {
  EXPECT_EQ(failure([] { throw std::runtime_error("a\x1b[2J\nb"); }).text, "a\\x1b[2J");
  EXPECT_EQ(failure([] { throw std::runtime_error(std::string(5000, 'a')); }).text,
            std::string(1000, 'a') + "…");
  EXPECT_FALSE(failure([] { TORCH_CHECK(false, "k is 3\nb"); }).out_of_memory);
  EXPECT_EQ(failure([] { TORCH_CHECK(false, "k is 3\nb"); }).text, "k is 3");
}

}  // namespace
}  // namespace longbow::cli
