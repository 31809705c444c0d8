#include "longbow/core/folder.h"

#include <fmt/format.h>

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "longbow/core/file_error.h"

namespace longbow {

namespace fs = std::filesystem;

void make_folder(const std::string& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (!failure && !fs::is_directory(path, failure))
    failure.assign(ENOTDIR, std::generic_category());
  if (failure) fail_at(path, "the folder cannot be made", failure.value());
}

std::string file_name(const std::string& text) {
  constexpr std::string_view kPlain = "_-+.";
  std::string name;
  for (const char each : text) {
    const auto c = static_cast<unsigned char>(each);
    const bool plain =
        c >= 0x80 || std::isalnum(c) || kPlain.find(static_cast<char>(c)) != kPlain.npos;
    if (plain && (c != '.' || !name.empty()))
      name += static_cast<char>(c);
    else
      name += fmt::format("%{:02X}", c);
  }
  return name;
}

std::string free_path(const std::string& path) {
  std::error_code ignored;  // whoever makes it will tell
  auto free = path;
  for (int count = 2; fs::exists(fs::symlink_status(free, ignored)); ++count)
    free = fmt::format("{}-{}", path, count);
  return free;
}

}  // namespace longbow
