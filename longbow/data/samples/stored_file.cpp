#include "longbow/data/samples/stored_file.h"

#include <filesystem>
#include <system_error>

#include "longbow/core/error.h"
#include "longbow/core/sha256.h"

namespace longbow {

void fail_stored(const std::string& path, const std::string& what) {
  throw UserError(Place{path, 0}, what, "remove this entry of the cache: it is made again");
}

std::string stored_path(const std::string& path) {
  std::error_code unknown;  // then opening it tells
  if (!std::filesystem::exists(path, unknown) && !unknown) fail_stored(path, "no such file");
  return path;
}

std::string checksum_of(const MappedFile& file) {
  Sha256 sum;
  sum.add(file.bytes());
  return sum.hex();
}

}  // namespace longbow
