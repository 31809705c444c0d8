#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace longbow::corpus {

// A finite number in decimal digits, blanks around it allowed; nothing else.
std::optional<double> parse_number(std::string_view text);

// A JSON number as the name of a class: 1.0 and 1e0 are the class 1, 3.70 is 3.7; integers stay as
// they are written.
std::string class_name_of(std::string_view number);

// Without spaces, tabs and line breaks at both ends.
std::string_view stripped(std::string_view text);

}  // namespace longbow::corpus
