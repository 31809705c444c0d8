#pragma once
#include <string>

#include "longbow/core/error.h"

namespace longbow {

// A relative path in a config is taken from the folder of the file that names it; one that a flag
// names, from the current folder.
std::string beside(const std::string& path, const Place& place);
std::string absolute_path(const std::string& path, const Place& place);

}  // namespace longbow
