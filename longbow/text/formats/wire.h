#pragma once
// The wire format of protocol buffers, as much of it as a reader needs.
#include <bit>
#include <cstdint>
#include <string_view>

#include "longbow/core/error.h"

namespace longbow {

struct WireField {
  uint32_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of a string, a message or a fixed number
  float as_float() const {
    uint32_t bits = 0;
    for (size_t i = bytes.size() < 4 ? 0 : 4; i-- > 0;)
      bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
    return std::bit_cast<float>(bits);
  }
};

class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  // False at the end. A UserError for bytes that are no fields.
  bool next(WireField& field) {
    if (bytes_.empty()) return false;
    const auto tag = varint();
    field = {static_cast<uint32_t>(tag >> 3), 0, {}};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        fail();
    }
    return true;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError(Place{name_, 0}, "not a SentencePiece model, or cut off");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) fail();
    const auto out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return out;
  }

  std::string_view bytes_;
  const std::string& name_;
};

}  // namespace longbow
