// Weights. Most changes break the length of the header, so the bytes are read a second time with a
// length that the file has.
#include "longbow/tensors/safetensors.h"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  fuzz::hold(data, size, [](const std::string& bytes) { parse_safetensors(bytes, "f"); });
  return fuzz::hold(data, size, [](std::string bytes) {
    uint64_t length = 0;
    if (bytes.size() < sizeof length) return;
    const auto last = bytes.rfind('}');
    if (last == std::string::npos) return;
    length = std::max(last + 1, sizeof length) - sizeof length;
    std::memcpy(bytes.data(), &length, sizeof length);
    parse_safetensors(bytes, "f");
  });
}
