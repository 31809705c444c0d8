#pragma once
#include <string>

namespace longbow {

// With all above it; nothing where it exists. UserError "path: the folder cannot be made;
// <reason>".
void make_folder(const std::string& path);

// A name for a file or folder that is `text` where it can be. All else, and a point in the first
// place, becomes %20 and the like: two texts never share a name, and none leaves its folder.
std::string file_name(const std::string& text);

// "path", or "path-2", "path-3", … when that exists.
std::string free_path(const std::string& path);

}  // namespace longbow
