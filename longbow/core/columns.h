#pragma once
// Texts on a terminal.
#include <string>

namespace longbow {

// Columns that a text takes: accents none, characters of East Asia two.
size_t columns_of(const std::string& utf8);
std::string padded(const std::string& utf8, size_t columns);  // with blanks after it
// At most so many columns: the beginning of a longer text,
std::string cut_to(const std::string& utf8, size_t columns);
// or both ends of it without the middle, since names often differ at their ends.
std::string shortened(const std::string& utf8, size_t columns);

}  // namespace longbow
