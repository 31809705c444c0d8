#pragma once
// Files in the format of MNIST.
#include <cstdint>
#include <string>

namespace longbow {

inline std::string idx_number(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(static_cast<uint8_t>(value >> static_cast<unsigned>(shift)));
  return bytes;
}

// Images of two rows and three columns, all of whose pixels are `scale` times the digit.
inline std::string idx_images(uint32_t count, uint32_t scale = 1) {
  auto bytes = idx_number(0x803) + idx_number(count) + idx_number(2) + idx_number(3);
  for (uint32_t i = 0; i < count; ++i) bytes += std::string(6, static_cast<char>(scale * (i % 10)));
  return bytes;
}
inline std::string idx_labels(uint32_t count) {
  auto bytes = idx_number(0x801) + idx_number(count);
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

}  // namespace longbow
