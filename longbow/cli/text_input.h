#pragma once
// Files of texts that a command reads line by line.
#include <string>

#include "longbow/corpus/files/text_file.h"

namespace longbow::cli {

// A file, plain or packed, or stdin for "-", which is called stdin in messages. UserError for a
// folder and for what cannot be opened.
corpus::TextFile open_text(const std::string& path);

}  // namespace longbow::cli
