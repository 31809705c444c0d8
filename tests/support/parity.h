#pragma once
// Values that public implementations computed. tests/parity has a selection of them; a collection
// with more cases is read too, where LONGBOW_PARITY names one or ../shared/data/parity is there.
#include <cstdlib>
#include <filesystem>
#include <string>

namespace longbow {

inline std::filesystem::path parity_file(const std::string& name) {
  return std::filesystem::path(LONGBOW_SOURCE_DIR) / "tests/parity" / name;
}

inline std::filesystem::path parity_collection() {
  const char* named = std::getenv("LONGBOW_PARITY");
  if (named) return named;
  return std::filesystem::path(LONGBOW_SOURCE_DIR) / "../shared/data/parity";
}

}  // namespace longbow
