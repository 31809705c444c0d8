#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longbow {

// A file in the IDX format of MNIST: a magic number, the sizes, and bytes.
struct Idx {
  std::vector<int64_t> sizes;
  std::string_view bytes;  // of the file that was parsed
};
// UserError at `name` for what is not a file of unsigned bytes in so many dimensions, each above 0,
// or has other bytes than its sizes say.
Idx parse_idx(std::string_view file, const std::string& name, size_t dimensions);

}  // namespace longbow
