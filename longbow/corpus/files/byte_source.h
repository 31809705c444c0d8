#pragma once
// The bytes of a file as they were before packing. The first bytes of the file say how it is
// packed, never its name.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace longbow {
class Sha256;
}

namespace longbow::corpus {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `room` bytes, as many as are there already, but at least one; 0 at the end. UserError for
  // a file that is cut off or corrupt.
  virtual size_t read(char* to, size_t room) = 0;
  virtual int64_t stored() const = 0;  // bytes on disk that have been taken so far
};

// Plain, gzip (one member or several) or xz (one stream or several). `checksum`, when there is one,
// receives the bytes as they are on disk and must outlive the source.
std::unique_ptr<ByteSource> open_file(const std::string& path, Sha256* checksum = nullptr);

// The same for an open file, such as stdin or a pipe. It stays open, and a line is there as soon as
// it has been written. `name` is for messages.
std::unique_ptr<ByteSource> open_descriptor(int descriptor, const std::string& name,
                                            Sha256* checksum = nullptr);

// The same for bytes in memory, which must outlive the source; `name` is for messages.
std::unique_ptr<ByteSource> open_bytes(std::string_view bytes, const std::string& name,
                                       Sha256* checksum = nullptr);

}  // namespace longbow::corpus
