#pragma once
// Runs to be asked, and what was answered.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace longbow::cli {

// A run of the config in `folder`; the test fails when it does not train.
inline void train_run(const Workspace& here, const std::string& folder, const std::string& config) {
  here.write(folder + ".yaml", config);
  const auto outcome = here.run({"train", folder + ".yaml", "--out", folder, "--progress", "off"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

inline std::string answered(const Workspace& here, const Arguments& arguments) {
  const auto outcome = here.run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

inline std::vector<nlohmann::json> objects_of(const std::string& text) {
  std::vector<nlohmann::json> all;
  for (const auto& line : lines_of(text)) all.push_back(nlohmann::json::parse(line));
  return all;
}

// The message of a user error, without the program's name and the end of the line.
inline std::string error_line(const Workspace& here, const Arguments& arguments) {
  const auto outcome = here.run(arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
  return outcome.err.size() > 10 ? outcome.err.substr(9, outcome.err.size() - 10) : "";
}

}  // namespace longbow::cli
