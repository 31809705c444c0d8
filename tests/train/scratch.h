#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace longbow {

// An empty folder of the running test's own.
inline std::string scratch() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) / "longbow" /
                      test->test_suite_name() / test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

}  // namespace longbow
