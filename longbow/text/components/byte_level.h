#pragma once
// GPT-2's alphabet: one printable character for each of the 256 bytes, so that any text is made of
// characters of a small vocabulary. A space is U+0120, Ġ.
#include <array>
#include <string>
#include <string_view>

namespace longbow {

char32_t character_of_byte(unsigned char byte);
// UTF-8 of character_of_byte, one or two bytes.
std::string_view spelling_of_byte(unsigned char byte);
// The bytes that these characters stand for, or the text as it is when one stands for none.
std::string bytes_of_characters(std::string_view text);

}  // namespace longbow
