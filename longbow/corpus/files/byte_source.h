#pragma once
// The bytes of a file as they were before packing. The first bytes of the file say how it is
// packed, never its name.
#include <cstddef>
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
  // Fills up to `room` bytes; 0 at the end. UserError for a file that is cut off or corrupt.
  virtual size_t read(char* to, size_t room) = 0;
};

// Plain, gzip (one member or several) or xz (one stream or several). `checksum`, when there is one,
// receives the bytes as they are on disk and must outlive the source.
std::unique_ptr<ByteSource> open_file(const std::string& path, Sha256* checksum = nullptr);

// The same for bytes in memory, which must outlive the source; `name` is for messages.
std::unique_ptr<ByteSource> open_bytes(std::string_view bytes, const std::string& name,
                                       Sha256* checksum = nullptr);

}  // namespace longbow::corpus
