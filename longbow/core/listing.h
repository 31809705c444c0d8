#pragma once
// Lists and long texts inside messages.
#include <string>
#include <vector>

namespace longbow {

// "a, b, c", or the first few and how many more there are.
std::string listed(const std::vector<std::string>& names);

// As it is, or in quotes and cut when it is long.
std::string shortened(const std::string& text);

}  // namespace longbow
