#include "longbow/data/readers/idx.h"

#include <fmt/format.h>

#include "longbow/core/error.h"

namespace longbow {

Idx parse_idx(std::string_view file, const std::string& name, size_t dimensions) {
  const auto fail = [&](const std::string& what) {
    throw UserError(Place{name, 0}, what, "copy or download the file again");
  };
  const auto number = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<uint8_t>(file[at + i]);
    return value;
  };
  const size_t header = 4 + 4 * dimensions;
  constexpr int64_t kBytes = 0x0800;  // of unsigned bytes; the dimensions follow
  if (file.size() < header || number(0) != kBytes + static_cast<int64_t>(dimensions))
    fail(fmt::format("is not an IDX file of bytes in {} dimensions", dimensions));
  Idx idx = {.sizes = {}, .bytes = file.substr(header)};
  constexpr int64_t kMostSide = 1 << 24;
  int64_t total = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    idx.sizes.push_back(number(4 + 4 * i));
    if (idx.sizes.back() == 0 || idx.sizes.back() > kMostSide || total > (int64_t{1} << 36))
      fail(fmt::format("dimension {} is {}", i, idx.sizes.back()));
    total *= idx.sizes.back();
  }
  if (std::ssize(idx.bytes) != total)
    fail(fmt::format("holds {} bytes, but the header says {}", idx.bytes.size(), total));
  return idx;
}

}  // namespace longbow
