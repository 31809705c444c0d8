#include "longbow/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "longbow/core/file_error.h"

namespace longbow {

MappedFile::MappedFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_at(path, "cannot be read", errno);
  struct stat status = {};
  if (::fstat(file, &status) != 0) {
    const int reason = errno;
    ::close(file);
    fail_at(path, "cannot be read", reason);
  }
  size_ = static_cast<size_t>(status.st_size);
  // Nothing can be mapped of an empty file.
  void* const start = size_ > 0 ? ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0) : nullptr;
  const int reason = errno;
  ::close(file);
  if (start == MAP_FAILED) fail_at(path, "cannot be read", reason);
  start_ = start;
}

MappedFile::~MappedFile() {
  if (start_) ::munmap(const_cast<void*>(start_), size_);
}

}  // namespace longbow
