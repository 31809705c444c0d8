#pragma once
#include <string>
#include <string_view>

namespace longbow {

struct Utf8Character {
  char32_t code = 0xfffd;
  size_t bytes = 1;
  bool valid = false;
};
// The character that begins at this offset; a byte that is not well-formed UTF-8 is one character,
// U+FFFD, and not valid.
Utf8Character utf8_at(std::string_view text, size_t offset);

// The offset of the first byte that is not well-formed UTF-8 (overlong forms and surrogates are
// not), or npos.
size_t find_invalid_utf8(std::string_view text);
void append_utf8(std::string& text, char32_t code);

// The text after the byte order mark that some editors put in front of UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

// A JSON string literal, which is a double-quoted YAML scalar too. Control characters and line
// separators are escaped; bytes that are not UTF-8 become U+FFFD.
std::string string_literal(std::string_view text);

// A text of any origin as one line on a terminal: control characters and bytes that are not UTF-8
// are escaped, and what is longer than `most` bytes is cut between characters.
std::string one_line(std::string_view text, size_t most);

}  // namespace longbow
