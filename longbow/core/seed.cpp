#include "longbow/core/seed.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>

namespace longbow {
namespace {

// The last counter word separates what a key is used for, so a stream never meets its children.
enum Use : uint32_t { kNumbers, kChild, kPurpose };

uint32_t low(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}
uint64_t join(uint32_t lower, uint32_t upper) {
  return uint64_t{upper} << 32 | lower;
}

std::array<uint32_t, 4> block(uint64_t key, uint64_t index, Use use) {
  return philox({low(index), high(index), 0, use}, {low(key), high(key)});
}

uint64_t derive(uint64_t key, uint64_t index, Use use) {
  auto bits = block(key, index, use);
  return join(bits[0], bits[1]);
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xd2511f53} * counter[0];
    uint64_t second = uint64_t{0xcd9e8d57} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1],
               low(first)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
  }
  return counter;
}

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return hash ^ hash >> 31;
}

Stream::Stream(uint64_t seed, std::string_view purpose)
    : key_(derive(seed, hash_name(purpose), kPurpose)) {}

Stream Stream::at(uint64_t index) const {
  return Stream(derive(key_, index, kChild));
}

uint32_t Stream::next() {
  if (used_ == 4) {
    bits_ = block(key_, block_++, kNumbers);
    used_ = 0;
  }
  return bits_[static_cast<size_t>(used_++)];
}

uint64_t Stream::next64() {
  uint32_t lower = next();
  return join(lower, next());
}

double Stream::uniform() {
  return static_cast<double>(next64() >> 11) * 0x1p-53;
}

int64_t Stream::below(int64_t bound) {
  if (bound <= 0)
    throw std::invalid_argument("below: the bound is " + std::to_string(bound) + ", not positive");
  auto size = static_cast<uint64_t>(bound);
  uint64_t skipped = -size % size;  // 2^64 mod size: what is left is a multiple of size
  uint64_t bits = next64();
  while (bits < skipped) bits = next64();
  return static_cast<int64_t>(bits % size);
}

double Stream::normal() {
  has_spare_ = !has_spare_;
  if (!has_spare_) return spare_;
  double radius = std::sqrt(-2 * std::log(1 - uniform()));
  double angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

std::vector<int64_t> Stream::permutation(int64_t count) {
  if (count < 0) throw std::invalid_argument("permutation: the count is " + std::to_string(count));
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t last = count - 1; last > 0; --last)
    std::swap(order[static_cast<size_t>(last)], order[static_cast<size_t>(below(last + 1))]);
  return order;
}

}  // namespace longbow
