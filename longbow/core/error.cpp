#include "longbow/core/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "longbow/core/utf8.h"

namespace longbow {
namespace {

// A few lines of a terminal, whatever a file says.
constexpr size_t kLongestPlace = 400, kLongestPart = 1000;

std::string joined(const Place& place, const std::string& what, const std::string& hint) {
  std::string text = one_line(place.str(), kLongestPlace);
  if (!text.empty()) text += ": ";
  text += one_line(what, kLongestPart);
  if (!hint.empty()) text += "; " + one_line(hint, kLongestPart);
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Insertions, deletions, substitutions and swaps of neighbours.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string Place::str() const {
  return file.empty() || line <= 0 ? file : fmt::format("{}:{}", file, line);
}

UserError::UserError(const Place& place, const std::string& what, const std::string& hint)
    : std::runtime_error(joined(place, what, hint)) {}

std::string quote(const std::string& text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return "'" + text + "'";
  size_t cut = 0;
  for (auto next = cut; next <= kMost; next += utf8_at(text, next).bytes) cut = next;
  return "'" + text.substr(0, cut) + "…'";
}

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  size_t allowed =
      std::min(std::max<size_t>(1, name.size() / 3), name.empty() ? 0 : name.size() - 1);
  for (const auto& candidate : known) {
    size_t gap = std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (gap > allowed) continue;
    size_t distance = edit_distance(lower(name), lower(candidate));
    if (distance > allowed || (!best.empty() && distance == allowed)) continue;
    best = candidate;
    allowed = distance;
  }
  return best;
}

std::string suggest(const std::string& name, const std::vector<std::string>& known) {
  auto near = nearest(name, known);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  return known.empty() ? "" : fmt::format("one of: {}", fmt::join(known, ", "));
}

}  // namespace longbow
