#include "longbow/data/encoding/published.h"

#include <algorithm>
#include <filesystem>

#include "longbow/core/error.h"

namespace longbow {
namespace {

// Of `name`, those that the folder has.
std::vector<std::string> packings(const std::string& folder, const std::string& name) {
  const auto path = (std::filesystem::path(folder) / name).string();
  std::vector<std::string> all;
  for (const auto* ending : {"", ".xz", ".gz"})
    if (std::filesystem::exists(path + ending)) all.push_back(path + ending);
  return all;
}

}  // namespace

std::optional<std::string> find_packed_or_plain(const std::string& folder,
                                                const std::string& name) {
  const auto all = packings(folder, name);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

bool is_packed_or_plain(const std::string& path, const std::string& folder,
                        const std::string& name) {
  return std::ranges::any_of(packings(folder, name), [&](const std::string& each) {
    return std::filesystem::equivalent(path, each);
  });
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
