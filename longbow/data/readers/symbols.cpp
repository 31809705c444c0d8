#include "longbow/data/readers/symbols.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "longbow/data/readers/tsv.h"
#include "longbow/data/samples/text_codec.h"

namespace longbow {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr size_t kExamples = 8;

}  // namespace

Symbols::Symbols(std::vector<std::string> names, int64_t vocabulary, int64_t unknown,
                 std::shared_ptr<const TextCodec> codec)
    : names_(std::move(names)),
      vocabulary_(vocabulary),
      unknown_(unknown),
      codec_(std::move(codec)) {
  if (codec_) return;
  for (size_t id = 1; id < names_.size(); ++id)
    if (!names_[id].empty()) ids_.emplace(names_[id], static_cast<int32_t>(id));
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

// Names that were added to those of the tokenizer (a mask, a separator) are looked for in the text.
std::vector<int32_t> Symbols::read_text(std::string_view text) const {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    auto at = text.size();
    int64_t added = 0;
    for (auto id = codec_->vocabulary(); id < std::ssize(names_); ++id) {
      const auto& name = names_[static_cast<size_t>(id)];
      if (name.empty()) continue;
      if (const auto found = text.find(name); found < at) {
        at = found;
        added = id;
      }
    }
    codec_->encode(text.substr(0, at), ids);
    if (added == 0) break;
    ids.push_back(static_cast<int32_t>(added));
    text.remove_prefix(at + names_[static_cast<size_t>(added)].size());
  }
  return ids;
}

std::vector<int32_t> Symbols::read(std::string_view text, const Place& place) const {
  if (codec_) return read_text(text);
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(kBlanks, at), text.size());
    ids.push_back(id_of(std::string(text.substr(at, end - at)), ids.size() + 1, place));
    at = text.find_first_not_of(kBlanks, end);
  }
  return ids;
}

std::string Symbols::examples() const {
  if (codec_) return "any text";
  if (names_.empty()) return fmt::format("the ids 1..{}", vocabulary_ - 1);
  std::vector<std::string> shown(names_.begin() + 1, names_.end());
  std::erase(shown, "");
  const bool more = shown.size() > kExamples;
  shown.resize(std::min(shown.size(), kExamples));
  return fmt::format("{}{}", fmt::join(shown, ", "), more ? ", …" : "");
}

std::string Symbols::text(std::span<const int64_t> ids) const {
  std::string text;
  if (codec_) {
    for (size_t from = 0; from < ids.size();) {
      size_t to = from;
      while (to < ids.size() && ids[to] < codec_->vocabulary()) ++to;
      text += codec_->decode(ids.subspan(from, to - from));
      if (to < ids.size() && static_cast<size_t>(ids[to]) < names_.size())
        text += names_[static_cast<size_t>(ids[to])];
      from = to + 1;
    }
    return text;
  }
  for (const auto id : ids) {
    const auto index = static_cast<size_t>(id);
    if (!text.empty()) text += ' ';
    text += index < names_.size() && !names_[index].empty() ? names_[index] : std::to_string(id);
  }
  return text;
}

}  // namespace longbow
