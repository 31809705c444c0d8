#pragma once
#include <string_view>
#include <vector>

namespace longbow::unicode {

enum class NormalForm { c, d, kc, kd };

// A character of a rewritten text and what it did to the old one: 0 stands for the next old
// character, 1 is added, -n stands for the next old character and n that follow it.
struct ChangedCharacter {
  char32_t code;
  int change;
};

// The text in its normal form, appended to `out`. The text is well-formed UTF-8.
void normalize(std::string_view text, NormalForm form, std::vector<ChangedCharacter>& out);

// A character that is itself in this form, whatever stands before it. What stands after it may
// still compose with it.
bool is_inert(char32_t code, NormalForm form);

}  // namespace longbow::unicode
