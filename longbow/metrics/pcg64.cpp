#include "longbow/metrics/pcg64.h"

#include <array>
#include <bit>

namespace longbow::metrics {
namespace {

// SeedSequence: hashes a seed into a pool of four words, then the pool into any number of words.
class SeedPool {
 public:
  explicit SeedPool(uint64_t seed) {
    pool_ = {hash(static_cast<uint32_t>(seed)), hash(static_cast<uint32_t>(seed >> 32)), hash(0),
             hash(0)};
    for (size_t from = 0; from < pool_.size(); ++from)
      for (size_t to = 0; to < pool_.size(); ++to)
        if (from != to) pool_[to] = mixed(pool_[to], hash(pool_[from]));
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint64_t, 4> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < 8; ++i) {
      uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= uint64_t{value} << (i % 2 * 32);
    }
    return words;
  }

 private:
  uint32_t hash(uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875;
    value *= constant_;
    return value ^ value >> 16;
  }

  static uint32_t mixed(uint32_t left, uint32_t right) {
    const uint32_t value = 0xca01f9dd * left - 0x4973f715 * right;
    return value ^ value >> 16;
  }

  uint32_t constant_ = 0x43b0d7e5;
  std::array<uint32_t, 4> pool_{};
};

}  // namespace

Pcg64::Pcg64(uint64_t seed) {
  const auto words = SeedPool(seed).state();
  increment_ = (Word{words[2]} << 64 | words[3]) << 1 | 1;
  step();
  state_ += Word{words[0]} << 64 | words[1];
  step();
}

void Pcg64::step() {
  constexpr Word kMultiplier = Word{0x2360ed051fc65da4} << 64 | 0x4385df649fccf645;
  state_ = state_ * kMultiplier + increment_;
}

uint64_t Pcg64::next() {
  step();
  const auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

uint32_t Pcg64::next_32() {
  has_half_ = !has_half_;
  if (!has_half_) return upper_half_;
  const auto both = next();
  upper_half_ = static_cast<uint32_t>(both >> 32);
  return static_cast<uint32_t>(both);
}

// Lemire's method (2019): the upper half of a product, drawn again where it would favour some
// numbers.
uint32_t Pcg64::below(uint32_t end) {
  if (end == 1) return 0;
  auto product = uint64_t{next_32()} * end;
  if (static_cast<uint32_t>(product) < end) {
    const uint32_t least = -end % end;
    while (static_cast<uint32_t>(product) < least) product = uint64_t{next_32()} * end;
  }
  return static_cast<uint32_t>(product >> 32);
}

bool Pcg64::coin() {
  if (bits_left_ == 0) {
    bits_ = next_32();
    bits_left_ = 32;
  }
  --bits_left_;
  const bool heads = bits_ & 1;
  bits_ >>= 1;
  return heads;
}

}  // namespace longbow::metrics
