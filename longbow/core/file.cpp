#include "longbow/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "longbow/core/error.h"
#include "longbow/core/file_error.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) {
    errno = EINVAL;  // what a NUL inside the path is
    if (path.find('\0') == std::string::npos)
      value_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return value_ >= 0; }
  bool sync() const { return ::fsync(value_) == 0; }
  bool close() {
    if (value_ < 0) return true;
    return ::close(std::exchange(value_, -1)) == 0;
  }
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      auto written = ::write(value_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  }
  ssize_t read(std::vector<char>& part) const {
    ssize_t count = -1;
    do count = ::read(value_, part.data(), part.size());
    while (count < 0 && errno == EINTR);
    return count;
  }

 private:
  int value_ = -1;
};

// A rename would replace a device or a link, not write through it.
std::string target_of(const std::string& path) {
  std::error_code ignored;  // opening the file will tell
  auto status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw UserError({path, 0}, "cannot be written", "it is not a regular file");
  return fs::is_symlink(fs::symlink_status(path, ignored))
             ? fs::weakly_canonical(path, ignored).string()
             : path;
}

void require_parent(const std::string& path) {
  auto parent = fs::path(path).parent_path();
  std::error_code ignored;
  if (!parent.empty() && !fs::is_directory(parent, ignored))
    throw UserError({path, 0}, "cannot be written",
                    fmt::format("there is no folder '{}'", parent.string()));
}

// The folder that a file is in.
std::string folder_of(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

void sync_folder(const std::string& path) {
  Descriptor folder(folder_of(path), O_RDONLY | O_DIRECTORY);
  if (folder.is_open()) folder.sync();
}

}  // namespace

void read_in_parts(const std::string& path, const std::function<void(std::string_view)>& take) {
  Descriptor file(path, O_RDONLY);
  if (!file.is_open()) fail_at(path, "cannot be read", errno);
  std::vector<char> part(size_t{1} << 18);
  while (true) {
    auto count = file.read(part);
    if (count < 0) fail_at(path, "cannot be read", errno);
    if (count == 0) return;
    take({part.data(), static_cast<size_t>(count)});
  }
}

std::string read_file(const std::string& path) {
  std::string contents;
  std::error_code unknown;
  auto size = fs::file_size(path, unknown);
  if (!unknown) contents.reserve(size);
  read_in_parts(path, [&](std::string_view part) { contents += part; });
  return contents;
}

void require_writable(const std::string& path) {
  require_parent(path);
  // A new file is made beside the target. AT_EACCESS: by the user that the process acts as.
  const auto folder = folder_of(target_of(path));
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    fail_at(path, "cannot be written", errno);
}

void write_file(const std::string& path, const std::string& contents) {
  static std::atomic<uint64_t> count = 0;
  require_parent(path);
  auto target = target_of(path);
  auto beside = fmt::format("{}.{}-{}.tmp", target, ::getpid(), count++);
  Descriptor file(beside, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.is_open()) fail_at(path, "cannot be written", errno);
  bool done = file.write(contents) && file.sync() && file.close() &&
              ::rename(beside.c_str(), target.c_str()) == 0;
  if (!done) {
    int reason = errno;
    ::unlink(beside.c_str());
    fail_at(path, "cannot be written", reason);
  }
  sync_folder(target);
}

void append_bytes(const std::string& path, const std::string& bytes) {
  require_parent(path);
  Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file.is_open() || !file.write(bytes) || !file.close())
    fail_at(path, "cannot be written", errno);
}

void append_line(const std::string& path, const std::string& line) {
  append_bytes(path, line + "\n");
}

}  // namespace longbow
