#include "longbow/core/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace longbow {
namespace {

namespace fs = std::filesystem;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Of a line "MemAvailable:   8050140 kB" or "inactive_file 4096".
std::optional<double> number_after(const fs::path& file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string key;
    double value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return std::nullopt;
}

std::optional<double> number_in(const fs::path& file) {
  std::ifstream stream(file);
  double value = 0;
  if (!(stream >> value)) return std::nullopt;  // "max" is no limit
  return value;
}

double of_system(const fs::path& meminfo) {
  const auto free = number_after(meminfo, "MemAvailable:");
  if (!free) return kUnknown;
  return 1024 * (*free + number_after(meminfo, "SwapFree:").value_or(0));
}

// Files that were read and may be forgotten count as free.
double of_group(const fs::path& folder) {
  const auto limit = number_in(folder / "memory.max"), used = number_in(folder / "memory.current");
  if (!limit || !used) return kUnknown;
  return std::max(
      0.0, *limit - *used + number_after(folder / "memory.stat", "inactive_file").value_or(0));
}

// Of "0::/user.slice/a.scope" the last part; "" where there is no such line.
std::string own_group(const fs::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("0::/")) return line.substr(4);
  return "";
}

}  // namespace

double available_memory(const std::string& root) {
  const fs::path start(root.empty() ? "/" : root);
  const auto groups = start / "sys/fs/cgroup";
  double least = std::min(of_system(start / "proc/meminfo"), of_group(groups));
  auto folder = groups;
  for (const auto& part : fs::path(own_group(start / "proc/self/cgroup"))) {
    folder /= part;
    least = std::min(least, of_group(folder));
  }
  return least;
}

}  // namespace longbow
