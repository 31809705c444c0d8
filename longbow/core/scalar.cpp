#include "longbow/core/scalar.h"

namespace longbow {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

struct Cursor {
  std::string_view rest;
  bool take(std::string_view any) {
    if (rest.empty() || any.find(rest[0]) == std::string_view::npos) return false;
    rest.remove_prefix(1);
    return true;
  }
  size_t digits() {
    size_t count = 0;
    while (count < rest.size() && is_digit(rest[count])) ++count;
    rest.remove_prefix(count);
    return count;
  }
  bool exponent() {
    if (!take("eE")) return true;
    take("+-");
    return digits() > 0;
  }
};

}  // namespace

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

bool is_boolean_word(std::string_view text) {
  return text == "true" || text == "false";
}

bool is_number_word(std::string_view text) {
  Cursor cursor{text};
  cursor.take("+-");
  size_t digits = cursor.digits();
  if (cursor.take(".")) digits += cursor.digits();
  return digits > 0 && cursor.exponent() && cursor.rest.empty();
}

bool is_json_number(std::string_view text) {
  Cursor cursor{text};
  cursor.take("-");
  bool leading_zero = !cursor.rest.empty() && cursor.rest[0] == '0';
  size_t whole = cursor.digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (cursor.take(".") && cursor.digits() == 0) return false;
  return cursor.exponent() && cursor.rest.empty();
}

}  // namespace longbow
