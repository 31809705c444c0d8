#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace longbow {

// A file as memory that is read when it is touched, so it may be larger than the machine's. It must
// not be changed meanwhile; replacing it by a rename is fine.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // UserError "path: cannot be read; <reason>"
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(start_), size_}; }
  // As numbers of the machine's own byte order; the size of the file is a multiple of theirs.
  template <class T>
  std::span<const T> as() const {
    return {static_cast<const T*>(start_), size_ / sizeof(T)};
  }

 private:
  const void* start_ = nullptr;
  size_t size_ = 0;
};

}  // namespace longbow
