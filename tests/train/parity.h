#pragma once
// Numbers that public libraries computed.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/parity.h"

namespace longbow {

inline nlohmann::json parity(const std::string& name) {
  std::ifstream file(parity_file(name));
  return nlohmann::json::parse(file);
}

}  // namespace longbow
