#pragma once
// Steps through text that is known to be well-formed UTF-8, in the loops that see every character.
#include <cstddef>
#include <string_view>

namespace longbow::unicode {

inline unsigned char byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Bytes of the character whose first byte this is.
inline size_t bytes_of(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

inline bool is_boundary(std::string_view text, size_t at) {
  return at >= text.size() || (byte_at(text, at) & 0xc0) != 0x80;
}

// The character at `at`, which moves behind it.
inline char32_t next_character(std::string_view text, size_t& at) {
  const char32_t first = byte_at(text, at);
  if (first < 0x80) return ++at, first;
  const auto tail = [&](size_t i) -> char32_t { return byte_at(text, at + i) & 0x3fu; };
  if (first < 0xe0) {
    const auto code = (first & 0x1f) << 6 | tail(1);
    return at += 2, code;
  }
  if (first < 0xf0) {
    const auto code = (first & 0x0f) << 12 | tail(1) << 6 | tail(2);
    return at += 3, code;
  }
  const auto code = (first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
  return at += 4, code;
}

// The character that ends at `end`, which moves in front of it.
inline char32_t previous_character(std::string_view text, size_t& end) {
  do --end;
  while (!is_boundary(text, end));
  size_t at = end;
  return next_character(text, at);
}

inline size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

}  // namespace longbow::unicode
