#include "longbow/text/components/encoding.h"

#include <algorithm>
#include <iterator>

namespace longbow {
namespace {

template <class T>
std::vector<T> slice(const std::vector<T>& list, size_t begin, size_t end) {
  const auto from = list.begin();
  return {from + static_cast<std::ptrdiff_t>(begin), from + static_cast<std::ptrdiff_t>(end)};
}

template <class T>
void extend(std::vector<T>& list, const std::vector<T>& other) {
  list.insert(list.end(), other.begin(), other.end());
}

template <class T>
void fill(std::vector<T>& list, size_t count, const T& value, TextSide side) {
  list.insert(side == TextSide::left ? list.begin() : list.end(), count, value);
}

struct Bounds {
  size_t begin, end;
};

std::vector<Bounds> windows(size_t size, size_t most, size_t stride, TextSide cut) {
  std::vector<Bounds> out;
  const size_t step = most - stride;
  if (cut == TextSide::right) {
    for (size_t begin = 0; out.empty() || out.back().end < size; begin += step)
      out.push_back({begin, std::min(begin + most, size)});
  } else {
    for (size_t end = size; out.empty() || out.back().begin > 0; end -= step)
      out.push_back({end > most ? end - most : 0, end});
  }
  return out;
}

}  // namespace

void Encoding::reserve(size_t count) {
  ids.reserve(count);
  type_ids.reserve(count);
  tokens.reserve(count);
  offsets.reserve(count);
  words.reserve(count);
  special_tokens_mask.reserve(count);
  attention_mask.reserve(count);
}

void Encoding::add(int32_t id, std::string token, TokenOffsets place, int32_t word) {
  ids.push_back(id);
  type_ids.push_back(0);
  tokens.push_back(std::move(token));
  offsets.push_back(place);
  words.push_back(word);
  special_tokens_mask.push_back(0);
  attention_mask.push_back(1);
}

void Encoding::add_special(int32_t id, std::string token, int32_t type_id) {
  add(id, std::move(token), {}, -1);
  type_ids.back() = type_id;
  special_tokens_mask.back() = 1;
}

void Encoding::set_type(int32_t type_id) {
  std::fill(type_ids.begin(), type_ids.end(), type_id);
}

Encoding Encoding::part(size_t begin, size_t end) const {
  Encoding out;
  out.ids = slice(ids, begin, end);
  out.type_ids = slice(type_ids, begin, end);
  out.tokens = slice(tokens, begin, end);
  out.offsets = slice(offsets, begin, end);
  out.words = slice(words, begin, end);
  out.special_tokens_mask = slice(special_tokens_mask, begin, end);
  out.attention_mask = slice(attention_mask, begin, end);
  return out;
}

void Encoding::truncate(size_t most, size_t stride, TextSide cut) {
  if (size() <= most) return;
  if (most == 0) {
    Encoding all = std::move(*this);
    *this = {};
    overflowing.push_back(std::move(all));
    return;
  }
  const auto bounds = windows(size(), most, stride, cut);
  Encoding first = part(bounds[0].begin, bounds[0].end);
  for (size_t i = 1; i < bounds.size(); ++i)
    first.overflowing.push_back(part(bounds[i].begin, bounds[i].end));
  *this = std::move(first);
}

void Encoding::append_tokens(const Encoding& other) {
  extend(ids, other.ids);
  extend(type_ids, other.type_ids);
  extend(tokens, other.tokens);
  extend(offsets, other.offsets);
  extend(words, other.words);
  extend(special_tokens_mask, other.special_tokens_mask);
  extend(attention_mask, other.attention_mask);
}

void Encoding::append(Encoding other) {
  if (size() == 0 && overflowing.empty()) {
    *this = std::move(other);
    return;
  }
  std::vector<Encoding> joined;
  const auto join = [&joined](const Encoding& left, const Encoding& right) {
    Encoding both = left.part(0, left.size());
    both.append_tokens(right);
    joined.push_back(std::move(both));
  };
  for (const auto& left : overflowing) {
    join(left, other);
    for (const auto& right : other.overflowing) join(left, right);
  }
  for (const auto& right : other.overflowing) join(*this, right);
  append_tokens(other);
  overflowing = std::move(joined);
}

void Encoding::pad(size_t length, const Filler& filler) {
  for (auto& part : overflowing) part.pad(length, filler);
  if (size() >= length) return;
  const size_t count = length - size();
  fill(ids, count, filler.id, filler.side);
  fill(type_ids, count, filler.type_id, filler.side);
  fill(tokens, count, filler.token, filler.side);
  fill(offsets, count, TokenOffsets{}, filler.side);
  fill(words, count, int32_t{-1}, filler.side);
  fill(special_tokens_mask, count, uint8_t{1}, filler.side);
  fill(attention_mask, count, uint8_t{0}, filler.side);
}

}  // namespace longbow
