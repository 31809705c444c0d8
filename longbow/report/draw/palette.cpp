#include "longbow/report/draw/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "longbow/report/table/bench_grid.h"

namespace longbow::reporting {
namespace {

size_t preferred(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (auto c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return (hash ^ (hash >> 16)) % kColours;
}

}  // namespace

std::map<std::string, Look> palette(std::vector<std::string> names) {
  constexpr std::array<const char*, 6> kDashes = {"",        "7 3",         "2 3",
                                                  "9 3 2 3", "9 3 2 3 2 3", "16 5"};
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::map<std::string, Look> looks;
  std::array<size_t, kColours> used{};
  for (auto& name : names) {
    if (is_reference(name)) {
      looks[name] = {.colour = "var(--ink)", .dash = "", .bold = true};
      continue;
    }
    auto round = *std::min_element(used.begin(), used.end());
    auto slot = preferred(name);
    while (used[slot] > round) slot = (slot + 1) % kColours;
    looks[name] = {.colour = fmt::format("var(--c{})", slot),
                   .dash = kDashes[used[slot] % kDashes.size()]};
    ++used[slot];
  }
  return looks;
}

}  // namespace longbow::reporting
