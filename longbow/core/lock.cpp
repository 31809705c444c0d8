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

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  std::error_code failure;
  if (std::filesystem::create_directories(folder, failure)) made_ = folder;
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
  if (!made_.empty()) ::rmdir(made_.c_str());
  ::close(descriptor_);
}

}  // namespace longbow
