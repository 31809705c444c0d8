#pragma once
#include <cstddef>
#include <cstdint>

namespace longbow::metrics {

// The numbers of NumPy's default_rng(seed): PCG-XSL-RR 128/64 (O'Neill, 2014), seeded by NumPy's
// SeedSequence. p values of published tests depend on them; everything else draws from Stream
// (core/seed.h).
class Pcg64 {
 public:
  explicit Pcg64(uint64_t seed);
  uint64_t next();
  uint32_t next_32();            // the lower half of a number, then the upper half
  uint32_t below(uint32_t end);  // integers(end) and choice(end), for end > 0
  bool coin();                   // integers(2, dtype=bool)

 private:
  __extension__ using Word = unsigned __int128;
  void step();
  Word state_ = 0, increment_ = 0;
  uint32_t upper_half_ = 0, bits_ = 0;
  int bits_left_ = 0;
  bool has_half_ = false;
};

}  // namespace longbow::metrics
