#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "longbow/core/error.h"

namespace longbow {

// The message of the UserError that `act` throws.
inline std::string mistake(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError was thrown";
}

// An empty folder of the running test's own.
inline std::filesystem::path scratch() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  auto folder = std::filesystem::path(testing::TempDir()) / "longbow" / test->test_suite_name() /
                test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace longbow
