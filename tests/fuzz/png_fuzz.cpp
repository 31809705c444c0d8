// A PNG file as it is, and with the checksums of its parts made right, so that what is behind them
// is reached.
#include "longbow/corpus/files/png.h"

#include <zlib.h>

#include "tests/fuzz/fuzz.h"

namespace {

void repair(std::string& bytes) {
  constexpr size_t kSignature = 8, kAround = 12;
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(bytes[at]); };
  for (size_t at = kSignature; at + kAround <= bytes.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | byte(at + i);
    if (length > bytes.size() - at - kAround) return;
    const auto sum =
        crc32(0, reinterpret_cast<const Bytef*>(&bytes[at + 4]), static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i)
      bytes[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i) & 0xff);
    at += kAround + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using longbow::corpus::parse_png;
  longbow::fuzz::hold(data, size, [](const std::string& text) { parse_png(text, "f.png"); });
  return longbow::fuzz::hold(data, size, [](std::string text) {
    repair(text);
    parse_png(text, "f.png");
  });
}
