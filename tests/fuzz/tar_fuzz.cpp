// An archive, plain or packed.
#include "longbow/corpus/files/tar.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& bytes) {
    const auto source = corpus::open_bytes(bytes, "f.tar");
    corpus::read_tar(*source, "f.tar", 1 << 16, [](const std::string&, std::string_view) {});
  });
}
