#pragma once
#include <string>
#include <vector>

namespace longbow::corpus {

// `path` when it is a file. When it is a folder, every *.txt, *.txt.gz and *.txt.xz below it, in
// the order of their names; hidden files and folders are left out. UserError when there is none.
std::vector<std::string> text_files(const std::string& path);

}  // namespace longbow::corpus
