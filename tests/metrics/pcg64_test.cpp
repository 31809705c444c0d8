#include "longbow/metrics/pcg64.h"

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

// np.random.default_rng(seed).bit_generator.random_raw(3)
TEST(Pcg64, DrawsTheNumbersOfNumPy) {
  const std::pair<uint64_t, std::array<uint64_t, 3>> known[] = {
      {0, {0xa30febcfd9c2825f, 0x4510bdf882d9d721, 0x0a7d3da94ecde8b8}},
      {12345, {0x3a32b18db2ffc19d, 0x51171315c9e4c4de, 0xcc2024823444efd9}},
      {1099511627783, {0xd46e9e2034de21aa, 0x415badc99c087675, 0x275ed40f045acb84}}};
  for (const auto& [seed, numbers] : known) {
    Pcg64 random(seed);
    for (const auto number : numbers) EXPECT_EQ(random.next(), number) << seed;
  }
}

TEST(Pcg64, ChoosesAsNumPy) {
  const auto all = vectors("sacrebleu.json");
  Pcg64 random(12345);
  for (const auto& row : all.at("paired_random_stream").at("first_choice_of_40"))
    for (const auto& number : row) EXPECT_EQ(random.below(40), number.get<uint32_t>());
}

// integers(0, 3000000000, size=6), choice(1, size=3), choice(10, size=3) of seed 1: a third of
// the draws for the first are rejected, and none are made for the second.
TEST(Pcg64, RejectsDrawsAsNumPy) {
  Pcg64 random(1);
  for (const uint32_t number :
       {1535464873u, 2851391088u, 104557657u, 2845948340u, 935494355u, 2607075741u})
    EXPECT_EQ(random.below(3000000000u), number);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(random.below(1), 0u);
  for (const uint32_t number : {4u, 2u, 8u}) EXPECT_EQ(random.below(10), number);
}

// integers(2, size=40, dtype=bool), then choice(40, size=5), of seed 7.
TEST(Pcg64, TossesCoinsAsNumPy) {
  Pcg64 random(7);
  std::string tosses;
  for (int i = 0; i < 40; ++i) tosses += random.coin() ? '1' : '0';
  EXPECT_EQ(tosses, "1101000101010010101001111000111110010101");
  for (const uint32_t number : {27u, 35u, 23u, 31u, 33u}) EXPECT_EQ(random.below(40), number);
}

}  // namespace
}  // namespace longbow::metrics
