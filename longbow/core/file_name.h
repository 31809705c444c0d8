#pragma once
// Names of files that a file lists: each must be beside the list, so that nothing else is read
// through it.
#include <string_view>

namespace longbow {

bool is_file_name(std::string_view name);  // not empty, not . or .., without / \ and NUL

}  // namespace longbow
