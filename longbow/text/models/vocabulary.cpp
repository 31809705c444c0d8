#include "longbow/text/models/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "longbow/core/error.h"

namespace longbow {

TokenVocabulary::TokenVocabulary(const std::vector<VocabularyEntry>& entries)
    : count_(entries.size()) {
  // Ids may have holes, but a file must not ask for memory that its size does not explain.
  const auto limit = static_cast<int64_t>(entries.size()) * 16 + 65'536;
  int32_t last = -1;
  size_t bytes = 0;
  for (const auto& [token, id] : entries) {
    if (id < 0 || id >= limit)
      throw UserError(fmt::format("token {} has the id {}", quote(token), id),
                      fmt::format("ids of {} entries must be below {}", entries.size(), limit));
    last = std::max(last, id);
    bytes += token.size();
  }
  if (bytes > std::numeric_limits<uint32_t>::max()) throw UserError("the vocabulary is too large");
  texts_.reserve(bytes);
  places_.resize(static_cast<size_t>(last + 1));
  slots_.assign(std::bit_ceil(entries.size() * 2 + 1), -1);
  for (const auto& [token, id] : entries) {
    auto& place = places_[static_cast<size_t>(id)];
    if (place.bytes >= 0)
      throw UserError(fmt::format("tokens {} and {} have the same id {}",
                                  quote(std::string(token_of(id))), quote(token), id));
    const size_t slot = slot_of(token);
    if (slots_[slot] >= 0) throw UserError(fmt::format("token {} is there twice", quote(token)));
    place = {static_cast<uint32_t>(texts_.size()), static_cast<int32_t>(token.size())};
    texts_ += token;
    slots_[slot] = id;
  }
}

size_t TokenVocabulary::slot_of(std::string_view token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(token)&mask;
  while (slots_[slot] >= 0 && token_of(slots_[slot]) != token) slot = (slot + 1) & mask;
  return slot;
}

int32_t TokenVocabulary::id_of(std::string_view token) const {
  return slots_.empty() ? -1 : slots_[slot_of(token)];
}

bool TokenVocabulary::has(int32_t id) const {
  return id >= 0 && id < end() && places_[static_cast<size_t>(id)].bytes >= 0;
}

std::string_view TokenVocabulary::token_of(int32_t id) const {
  if (!has(id)) return {};
  const auto& place = places_[static_cast<size_t>(id)];
  return std::string_view(texts_).substr(place.begin, static_cast<size_t>(place.bytes));
}

}  // namespace longbow
