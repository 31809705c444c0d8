#pragma once
// Counter-based randomness: every number is a pure function of (seed, purpose, index), so data
// order, dropout, initial values and random features never disturb each other, and any of them can
// be recomputed.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longbow {

// Philox-4x32 with ten rounds (Salmon et al., 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A stable 64-bit hash of a name (FNV-1a with a final mix); the same on every machine and build.
uint64_t hash_name(std::string_view name);

// One purpose's stream. Copying copies the position; `at` derives an independent child stream.
class Stream {
 public:
  Stream(uint64_t seed, std::string_view purpose);
  Stream at(uint64_t index) const;  // e.g. one stream per sample or per epoch
  uint32_t next();                  // 32 random bits
  uint64_t next64();
  double uniform();              // [0, 1), 53 bits
  int64_t below(int64_t bound);  // 0 … bound-1, without bias
  double normal();               // standard normal (Box-Muller, both values used)
  std::vector<int64_t> permutation(int64_t count);
  uint64_t key() const { return key_; }

 private:
  explicit Stream(uint64_t key) : key_(key) {}
  uint64_t key_, block_ = 0;
  std::array<uint32_t, 4> bits_{};
  int used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace longbow
