#pragma once
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {

// Blocks index … index + 15 of a site at once, so that the rounds of sixteen blocks are one vector
// loop: words[4 b + j] is word j of block b.
constexpr int64_t kBlocks = 16;
[[gnu::always_inline]] inline void philox_blocks(int64_t seed, int64_t step, uint64_t site,
                                                 int64_t index, uint32_t* words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    c0[b] = static_cast<uint32_t>(index + b);
    c1[b] = static_cast<uint32_t>(step);
    c2[b] = static_cast<uint32_t>(site);
    c3[b] = static_cast<uint32_t>(site >> 32);
  }
  auto low = static_cast<uint32_t>(seed),
       high = static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t b = 0; b < kBlocks; ++b) {
      const uint64_t p = uint64_t{0xD2511F53u} * c0[b], q = uint64_t{0xCD9E8D57u} * c2[b];
      c0[b] = static_cast<uint32_t>(q >> 32) ^ c1[b] ^ low;
      c1[b] = static_cast<uint32_t>(q);
      c2[b] = static_cast<uint32_t>(p >> 32) ^ c3[b] ^ high;
      c3[b] = static_cast<uint32_t>(p);
    }
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  for (int64_t b = 0; b < kBlocks; ++b) {
    words[4 * b] = c0[b];
    words[4 * b + 1] = c1[b];
    words[4 * b + 2] = c2[b];
    words[4 * b + 3] = c3[b];
  }
}

}  // namespace longbow::kernels
