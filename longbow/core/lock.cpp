#include "longbow/core/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <regex>
#include <system_error>

#include "longbow/core/error.h"

namespace longbow {
namespace {

// As write_file names what it will rename.
void remove_unfinished(const std::string& folder) {
  static const std::regex name(R"(.+\.[0-9]+-[0-9]+\.tmp)");
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (std::regex_match(entry.path().filename().string(), name))
      std::filesystem::remove(entry.path(), ignored);
}

std::vector<std::string> missing_folders(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (std::filesystem::path path = folder;
       !path.empty() && !std::filesystem::exists(path, ignored); path = path.parent_path())
    missing.push_back(path.string());
  return missing;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : made_(missing_folders(folder)) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw UserError({folder, 0}, "the folder cannot be made", failure.message());
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw UserError({folder, 0}, "the folder cannot be opened",
                    std::generic_category().message(errno));
  // Some network file systems cannot lock a folder; there everything goes on without.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    remove_unfinished(folder);
    return;
  }
  ::close(descriptor_);
  throw UserError({folder, 0}, "another process is writing to it",
                  "wait until it ends, or choose another --out");
}

FolderLock::~FolderLock() {
  for (const auto& folder : made_) ::rmdir(folder.c_str());
  ::close(descriptor_);
}

}  // namespace longbow
