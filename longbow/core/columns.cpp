#include "longbow/core/columns.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "longbow/core/utf8.h"

namespace longbow {
namespace {

template <size_t N>
bool in_any(char32_t code, const std::array<std::pair<char32_t, char32_t>, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return range.first <= code && code <= range.second;
  });
}

}  // namespace

size_t columns_of(const std::string& utf8) {
  constexpr std::array<std::pair<char32_t, char32_t>, 4> kNone = {
      {{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kTwo = {{{0x1100, 0x115F},
                                                                  {0x2E80, 0xA4CF},
                                                                  {0xAC00, 0xD7A3},
                                                                  {0xF900, 0xFAFF},
                                                                  {0xFE30, 0xFE6F},
                                                                  {0xFF00, 0xFF60},
                                                                  {0x1F300, 0x1FAFF},
                                                                  {0x20000, 0x3FFFD}}};
  size_t columns = 0;
  for (size_t at = 0; at < utf8.size();) {
    const auto [code, bytes, valid] = utf8_at(utf8, at);
    columns += in_any(code, kNone) ? 0 : in_any(code, kTwo) ? 2 : 1;
    at += bytes;
  }
  return columns;
}

std::string shortened(const std::string& utf8, size_t columns) {
  if (columns_of(utf8) <= columns) return utf8;
  std::vector<std::string> characters;
  for (size_t at = 0; at < utf8.size();) {
    characters.push_back(utf8.substr(at, utf8_at(utf8, at).bytes));
    at += characters.back().size();
  }
  // Takes characters from either end in turn, two from the front for each from the back.
  std::string front, back;
  size_t first = 0, last = characters.size(), room = columns > 0 ? columns - 1 : 0;
  for (size_t turn = 0; first < last; ++turn) {
    const auto& next = turn % 3 == 2 ? characters[last - 1] : characters[first];
    if (columns_of(next) > room) break;
    room -= columns_of(next);
    if (turn % 3 == 2)
      back = characters[--last] + back;
    else
      front += characters[first++];
  }
  return front + "…" + back;
}

std::string padded(const std::string& utf8, size_t columns) {
  return utf8 + std::string(columns - std::min(columns, columns_of(utf8)), ' ');
}

std::string cut_to(const std::string& utf8, size_t columns) {
  size_t at = 0;
  for (size_t used = 0; at < utf8.size();) {
    const auto bytes = utf8_at(utf8, at).bytes;
    used += columns_of(utf8.substr(at, bytes));
    if (used > columns) break;
    at += bytes;
  }
  return utf8.substr(0, at);
}

}  // namespace longbow
