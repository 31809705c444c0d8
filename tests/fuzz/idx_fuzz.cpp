// Images and labels in the format of MNIST.
#include "longbow/data/readers/idx.h"

#include <utility>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  for (const size_t dimensions : {1, 3})
    fuzz::hold(data, size, [&](const std::string& bytes) {
      const auto idx = parse_idx(bytes, "f", dimensions);
      int64_t total = 1;
      for (const auto side : idx.sizes) total *= side;
      if (std::cmp_not_equal(total, idx.bytes.size())) fuzz::found("sizes and bytes differ");
    });
  return 0;
}
