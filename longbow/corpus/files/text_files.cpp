#include "longbow/corpus/files/text_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "longbow/core/error.h"
#include "longbow/core/file_error.h"

namespace longbow::corpus {
namespace {

namespace fs = std::filesystem;

bool is_text_name(const std::string& name) {
  return name.ends_with(".txt") || name.ends_with(".txt.gz") || name.ends_with(".txt.xz");
}

}  // namespace

std::vector<std::string> text_files(const std::string& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  auto entry = fs::recursive_directory_iterator(path, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    const auto name = entry->path().filename().string();
    const bool hidden = name.starts_with('.');
    std::error_code unknown;  // opening the file will tell
    if (hidden) entry.disable_recursion_pending();
    if (!hidden && is_text_name(name) && entry->is_regular_file(unknown))
      files.push_back(entry->path().string());
  }
  if (failed) fail_at(path, "cannot be read", failed.value());
  if (files.empty())
    throw UserError({path, 0}, "no text files in this folder",
                    "it should hold *.txt, *.txt.gz or *.txt.xz");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace longbow::corpus
