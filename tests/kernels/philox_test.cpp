#include "longbow/kernels/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {
namespace {

std::array<uint32_t, 4> words(const Philox4& block) {
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

// The known answers of philox4x32-10 that Random123 ships (kat_vectors).
TEST(PhiloxKernel, GivesTheKnownAnswers) {
  EXPECT_EQ(words(philox_block({{0, 0, 0, 0}}, 0, 0)),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox_block({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u)),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox_block({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                               0x299f31d0)),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxKernel, AUnitIsBelowOneEvenForTheLargestWord) {
  EXPECT_EQ(philox_unit(0), 0);
  EXPECT_LT(philox_unit(~0u), 1);
}

TEST(PhiloxKernel, PiecesAreTheWhole) {
  const int64_t key[2] = {-3, 12};
  std::vector<float> whole(101), pieces(101);
  philox_uniform({.key = key, .site = 1ull << 40, .out = whole.data(), .first = 0, .count = 101});
  for (int64_t first = 0; first < 101; first += 12)
    philox_uniform({.key = key,
                    .site = 1ull << 40,
                    .out = pieces.data() + first,
                    .first = first,
                    .count = std::min<int64_t>(12, 101 - first)});
  EXPECT_EQ(whole, pieces);
}

TEST(PhiloxKernel, BothHalvesOfSeedAndSiteMatter) {
  const auto low = words(philox_site(1, 0, 1, 0));
  EXPECT_NE(low, words(philox_site(1 + (int64_t{1} << 32), 0, 1, 0)));
  EXPECT_NE(low, words(philox_site(1, 0, 1 + (uint64_t{1} << 32), 0)));
}

}  // namespace
}  // namespace longbow::kernels
