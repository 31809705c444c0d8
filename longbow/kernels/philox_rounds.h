#pragma once
// Philox-4x32-10 for host and device code alike.
#include <cstdint>

#ifdef __CUDACC__
#define LONGBOW_ANYWHERE __host__ __device__
#else
#define LONGBOW_ANYWHERE
#endif

namespace longbow::kernels {

struct Philox4 {
  uint32_t word[4];
};

LONGBOW_ANYWHERE inline Philox4 philox_block(Philox4 c, uint32_t key_low, uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.word[0], b = uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<uint32_t>(b >> 32) ^ c.word[1] ^ key_low, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c.word[3] ^ key_high, static_cast<uint32_t>(a)}};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return c;
}

// The block that holds elements 4 index … 4 index + 3 of one site at one step.
LONGBOW_ANYWHERE inline Philox4 philox_site(int64_t seed, int64_t step, uint64_t site,
                                            int64_t index) {
  const Philox4 counter = {{static_cast<uint32_t>(index), static_cast<uint32_t>(step),
                            static_cast<uint32_t>(site), static_cast<uint32_t>(site >> 32)}};
  return philox_block(counter, static_cast<uint32_t>(seed),
                      static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32));
}

LONGBOW_ANYWHERE inline float philox_unit(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

}  // namespace longbow::kernels
