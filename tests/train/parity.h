#pragma once
// Numbers that public libraries computed, for machines that have them.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace longbow {

inline constexpr auto kNoParity = "no folder of published numbers; set LONGBOW_PARITY";

inline std::string parity_file(const std::string& name) {
  const char* given = std::getenv("LONGBOW_PARITY");
  const std::filesystem::path root =
      given ? std::filesystem::path(given)
            : std::filesystem::path(LONGBOW_SOURCE_DIR) / "../shared/data/parity";
  return (root / name).string();
}

// Null when this machine has no such file.
inline nlohmann::json parity(const std::string& name) {
  std::ifstream file(parity_file(name));
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

}  // namespace longbow
