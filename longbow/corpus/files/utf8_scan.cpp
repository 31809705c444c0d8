#include "longbow/corpus/files/utf8_scan.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace longbow::corpus {
namespace {

using Byte = unsigned char;

bool continues(Byte byte) {
  return (byte & 0xc0) == 0x80;
}

// The second byte decides whether a form is overlong, a surrogate or above U+10FFFF.
bool is_second(Byte first, Byte second) {
  switch (first) {
    case 0xe0:
      return second >= 0xa0 && second <= 0xbf;
    case 0xed:
      return second >= 0x80 && second <= 0x9f;
    case 0xf0:
      return second >= 0x90 && second <= 0xbf;
    case 0xf4:
      return second >= 0x80 && second <= 0x8f;
    default:
      return continues(second);
  }
}

// Eight bytes that are all from 1 to 127. Subtracting borrows only below a zero byte.
bool is_plain_ascii(const Byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  return ((word | (word - kOnes)) & kHigh) == 0;
}

}  // namespace

Utf8Piece utf8_piece(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<Byte>(text[offset + i]); };
  const size_t left = text.size() - offset;
  const Byte first = byte(0);
  if (first < 0x80) return {Utf8State::valid, 1};
  if (first < 0xc2 || first > 0xf4) return {Utf8State::malformed, 1};
  const size_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (left == 1) return {Utf8State::cut, 1};
  if (!is_second(first, byte(1))) return {Utf8State::malformed, 1};
  for (size_t i = 2; i < wanted; ++i) {
    if (left == i) return {Utf8State::cut, i};
    if (!continues(byte(i))) return {Utf8State::malformed, i};
  }
  return {Utf8State::valid, wanted};
}

size_t plain_utf8_prefix(std::string_view text) {
  const auto* begin = reinterpret_cast<const Byte*>(text.data());
  const auto* end = begin + text.size();
  const auto* at = begin;
  while (at < end) {
    if (end - at >= 8 && is_plain_ascii(at)) {
      at += 8;
    } else if (*at < 0x80) {
      if (*at == 0) break;
      ++at;
    } else if (end - at >= 3 && *at > 0xe0 && *at < 0xed && continues(at[1]) && continues(at[2])) {
      at += 3;  // most of Korean, Chinese and Japanese
    } else {
      const auto piece = utf8_piece(text, static_cast<size_t>(at - begin));
      if (piece.state != Utf8State::valid) break;
      at += piece.bytes;
    }
  }
  return static_cast<size_t>(at - begin);
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return !continues(static_cast<Byte>(c)); }));
}

}  // namespace longbow::corpus
