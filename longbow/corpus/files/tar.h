#pragma once
// Archives of files, as `tar` writes them (POSIX ustar).
#include <functional>
#include <string>
#include <string_view>

#include "longbow/corpus/files/byte_source.h"

namespace longbow::corpus {

// Gives the name and the bytes of each regular file, in their order; all else is left out.
// UserError at `name` for what is not such an archive, is cut off, or holds a file of more than
// `most` bytes.
using TakeFile = std::function<void(const std::string& name, std::string_view bytes)>;
void read_tar(ByteSource& source, const std::string& name, size_t most, const TakeFile& take);

}  // namespace longbow::corpus
