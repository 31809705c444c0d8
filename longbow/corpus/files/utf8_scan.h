#pragma once
// UTF-8 that arrives in blocks: one pass over the bytes, made for speed, that can tell a character
// cut by the end of a block from a malformed one.
#include <cstddef>
#include <string_view>

namespace longbow::corpus {

enum class Utf8State { valid, malformed, cut };
struct Utf8Piece {
  Utf8State state = Utf8State::valid;
  // Of the character; of the malformed bytes that one U+FFFD replaces (the longest prefix of a
  // character, or one byte); of the beginning of a character, when the text ends inside.
  size_t bytes = 1;
};
// What is at this offset of the text.
Utf8Piece utf8_piece(std::string_view text, size_t offset);

// The offset of the first byte that is NUL, malformed or the beginning of a cut character; the
// text's size when there is none.
size_t plain_utf8_prefix(std::string_view text);

// Code points in valid UTF-8.
size_t count_characters(std::string_view text);

}  // namespace longbow::corpus
