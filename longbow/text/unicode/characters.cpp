#include "longbow/text/unicode/characters.h"

#include <utf8proc.h>

namespace longbow::unicode {
namespace {

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool between(char32_t code, char32_t first, char32_t last) {
  return code >= first && code <= last;
}

bool is_ascii_letter(char32_t code) {
  return between(code | 0x20, U'a', U'z');
}
bool is_ascii_digit(char32_t code) {
  return between(code, U'0', U'9');
}

// Symbols that the derived property Alphabetic counts as letters.
bool is_enclosed_letter(char32_t code) {
  return between(code, 0x24b6, 0x24e9) || between(code, 0x1f130, 0x1f149) ||
         between(code, 0x1f150, 0x1f169) || between(code, 0x1f170, 0x1f189);
}

}  // namespace

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || between(code, 0x09, 0x0d);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || between(code, 0x2000, 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_letter(char32_t code) {
  if (code < 0x80) return is_ascii_letter(code);
  if (between(code, 0xac00, 0xd7a3)) return true;
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_numeric(char32_t code) {
  if (code < 0x80) return is_ascii_digit(code);
  if (between(code, 0xac00, 0xd7a3)) return false;
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t code) {
  if (code < 0x80) return is_ascii_letter(code) || is_ascii_digit(code) || code == '_';
  if (between(code, 0xac00, 0xd7a3)) return true;
  const auto kind = category(code);
  if (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) return true;
  return kind == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d ||
         is_enclosed_letter(code);
}

bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return between(code, 0x21, 0x7e) && !is_ascii_letter(code) && !is_ascii_digit(code);
  if (between(code, 0xac00, 0xd7a3)) return false;
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_control(char32_t code) {
  if (code < 0x80)
    return (code < 0x20 && code != '\t' && code != '\n' && code != '\r') || code == 0x7f;
  if (between(code, 0xac00, 0xd7a3)) return false;
  const auto kind = category(code);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CO;
}

// The blocks of BERT's first release: the one at U+2B920 begins later than Unicode's does.
bool is_cjk(char32_t code) {
  return between(code, 0x4e00, 0x9fff) || between(code, 0x3400, 0x4dbf) ||
         between(code, 0x20000, 0x2a6df) || between(code, 0x2a700, 0x2b73f) ||
         between(code, 0x2b740, 0x2b81f) || between(code, 0x2b920, 0x2ceaf) ||
         between(code, 0xf900, 0xfaff) || between(code, 0x2f800, 0x2fa1f);
}

bool is_mark(char32_t code) {
  if (code < 0x300) return false;
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t code) {
  return code >= 0x300 && category(code) == UTF8PROC_CATEGORY_MN;
}

int combining_class(char32_t code) {
  if (code < 0x300) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

Lowercase lowercase(char32_t code) {
  if (code < 0x80) return {between(code, U'A', U'Z') ? code + 0x20 : code};
  if (code == 0x130) return {U'i', 0x307};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)))};
}

}  // namespace longbow::unicode
