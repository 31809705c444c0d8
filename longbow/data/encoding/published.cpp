#include "longbow/data/encoding/published.h"

#include <filesystem>

#include "longbow/core/error.h"

namespace longbow {

std::optional<std::string> find_packed_or_plain(const std::string& folder,
                                                const std::string& name) {
  const auto path = (std::filesystem::path(folder) / name).string();
  for (const auto* ending : {"", ".xz", ".gz"})
    if (std::filesystem::exists(path + ending)) return path + ending;
  return {};
}

std::string published_file(const std::string& set, const std::string& folder,
                           const std::vector<std::string>& names) {
  std::string others;
  for (const auto& name : names) {
    if (auto found = find_packed_or_plain(folder, name)) return *found;
    if (&name != &names.front()) others += ", nor " + name;
  }
  throw UserError(Place{(std::filesystem::path(folder) / names.front()).string(), 0},
                  "no such file" + others,
                  "`longbow data list " + set + "` tells which files belong into data.path");
}

}  // namespace longbow
