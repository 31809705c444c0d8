#include "longbow/data/readers/symbols.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "longbow/data/readers/tsv.h"

namespace longbow {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

}  // namespace

Symbols::Symbols(std::vector<std::string> names, int64_t vocabulary, int64_t unknown)
    : names_(std::move(names)), vocabulary_(vocabulary), unknown_(unknown) {
  for (size_t id = 1; id < names_.size(); ++id) ids_.emplace(names_[id], static_cast<int32_t>(id));
}

int32_t Symbols::id_of(const std::string& word, size_t number, const Place& place) const {
  if (names_.empty()) {
    int32_t id = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (failure == std::errc() && end == word.data() + word.size() && id > 0 && id < vocabulary_)
      return id;
    throw UserError(place, fmt::format("token {}, {}, is not an id", number, excerpt(word)),
                    "the data has " + examples());
  }
  if (const auto found = ids_.find(word); found != ids_.end()) return found->second;
  if (unknown_ > 0) return static_cast<int32_t>(unknown_);
  std::vector<std::string> known;
  for (const auto& [name, id] : ids_) known.push_back(name);
  const auto near = nearest(word, known);
  throw UserError(
      place, fmt::format("token {}, {}, is not a symbol of the data", number, excerpt(word)),
      near.empty() ? "its symbols are " + examples() : fmt::format("did you mean '{}'?", near));
}

std::vector<int32_t> Symbols::read(std::string_view text, const Place& place) const {
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(kBlanks, at), text.size());
    ids.push_back(id_of(std::string(text.substr(at, end - at)), ids.size() + 1, place));
    at = text.find_first_not_of(kBlanks, end);
  }
  return ids;
}

std::string Symbols::examples() const {
  if (names_.empty()) return fmt::format("the ids 1..{}", vocabulary_ - 1);
  const auto shown = std::span(names_).subspan(1, std::min<size_t>(names_.size() - 1, 8));
  return fmt::format("{}{}", fmt::join(shown, ", "), shown.size() + 1 < names_.size() ? ", …" : "");
}

std::string Symbols::text(std::span<const int64_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    const auto index = static_cast<size_t>(id);
    if (!text.empty()) text += ' ';
    text += index < names_.size() ? names_[index] : std::to_string(id);
  }
  return text;
}

}  // namespace longbow
