#pragma once
// What a bare word may mean, in one place for the readers, the writers and the typed views.
#include <string_view>

namespace longbow {

bool is_null_word(std::string_view text);     // "", ~, null
bool is_boolean_word(std::string_view text);  // true, false
bool is_number_word(std::string_view text);   // 12, -3, .5, 1e-3; not inf, 0x10 or 1_000
bool is_json_number(std::string_view text);   // the stricter grammar of JSON

}  // namespace longbow
