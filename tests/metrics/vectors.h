#pragma once
// Scores that scikit-learn, SciPy and sacreBLEU computed: tests/parity/metrics.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/parity.h"

namespace longbow::metrics {

inline nlohmann::json vectors(const std::string& name) {
  std::ifstream file(parity_file("metrics/" + name));
  EXPECT_TRUE(file.is_open()) << name;
  return nlohmann::json::parse(file);
}

// `null` stands for not-a-number.
inline void expect_close(double got, const nlohmann::json& want, double tolerance = 1e-12) {
  if (want.is_null()) {
    EXPECT_TRUE(std::isnan(got)) << got;
    return;
  }
  const double value = want.get<double>();
  EXPECT_NEAR(got, value, tolerance * std::max(1e-3, std::abs(value)));
}

}  // namespace longbow::metrics
