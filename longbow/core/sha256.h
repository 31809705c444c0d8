#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace longbow {

// SHA-256 (FIPS 180-4) of bytes that come in parts. file.h has the short forms.
class Sha256 {
 public:
  void add(std::string_view bytes);
  std::string hex() const;  // 64 hex digits for all bytes so far; more may follow

 private:
  void compress(const unsigned char* block);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

}  // namespace longbow
