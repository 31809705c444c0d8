#include "longbow/text/components/byte_level.h"

#include "longbow/core/utf8.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

struct Alphabet {
  std::array<char32_t, 256> characters{};
  std::array<std::string, 256> spellings;
  std::array<short, 512> bytes{};

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 256;  // for bytes that are no printable character of Latin-1
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      characters[byte] = is_printable ? byte : next++;
      append_utf8(spellings[byte], characters[byte]);
      bytes[characters[byte]] = static_cast<short>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

char32_t character_of_byte(unsigned char byte) {
  return alphabet().characters[byte];
}

std::string_view spelling_of_byte(unsigned char byte) {
  return alphabet().spellings[byte];
}

std::string bytes_of_characters(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto code = unicode::next_character(text, at);
    const short byte = code < alphabet().bytes.size() ? alphabet().bytes[code] : short{-1};
    if (byte < 0) return std::string(text);
    out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace longbow
