#include "longbow/cli/text_input.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "longbow/core/error.h"

namespace longbow::cli {

corpus::TextFile open_text(const std::string& path) {
  constexpr int64_t kLongestLine = int64_t{1} << 32;  // no longer text can be encoded
  const corpus::TextOptions options = {.max_line = kLongestLine, .is_in_config = false};
  if (path == "-") return corpus::TextFile::of_descriptor(STDIN_FILENO, "stdin", options);
  std::error_code unknown;  // opening the file will tell
  if (std::filesystem::is_directory(path, unknown))
    throw UserError(Place{path, 0}, "is a folder", "give files with one text per line");
  return corpus::TextFile(path, options);
}

}  // namespace longbow::cli
