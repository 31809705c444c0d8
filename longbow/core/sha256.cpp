#include "longbow/core/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "longbow/core/file.h"

namespace longbow {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::add(std::string_view bytes) {
  total_ += bytes.size();
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  if (filled_ > 0) {
    const size_t taken = std::min(left, block_.size() - filled_);
    std::memcpy(block_.data() + filled_, from, taken);
    filled_ += taken;
    from += taken;
    left -= taken;
    if (filled_ < block_.size()) return;
    compress(block_.data());
    filled_ = 0;
  }
  for (; left >= block_.size(); from += block_.size(), left -= block_.size()) compress(from);
  if (left > 0) std::memcpy(block_.data(), from, left);
  filled_ = left;
}

std::string Sha256::hex() const {
  std::string tail(1, '\x80');
  tail.append((119 - filled_) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8)
    tail += static_cast<char>(total_ * 8 >> shift & 0xff);
  auto padded = *this;
  padded.add(tail);
  std::string text;
  for (const uint32_t word : padded.state_) text += fmt::format("{:08x}", word);
  return text;
}

void Sha256::compress(const unsigned char* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  for (size_t i = 16; i < 64; ++i) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    uint32_t chosen = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + chosen + kRound[i] + w[i];
    uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  std::array<uint32_t, 8> worked = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += worked[i];
}

std::string sha256(const std::string& bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_of_file(const std::string& path) {
  Sha256 hash;
  read_in_parts(path, [&](std::string_view part) { hash.add(part); });
  return hash.hex();
}

std::string sha256_of_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> sums;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file())
      sums[entry.path().lexically_relative(path).generic_string()] =
          sha256_of_file(entry.path().string());
  Sha256 hash;
  for (const auto& [name, sum] : sums) hash.add(name + '\0' + sum);
  return hash.hex();
}

}  // namespace longbow
