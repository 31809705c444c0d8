#include "longbow/text/components/precompiled.h"

#include <gtest/gtest.h>

#include <vector>

#include "longbow/core/error.h"

namespace longbow {
namespace {

std::string unit(uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

// A trie with the one key "a", whose replacement is at 2.
std::string one_key() {
  std::vector<uint32_t> units(0x80);
  units[0] = 1u << 10;                               // children at 1 ^ label
  units[1 ^ 'a'] = 'a' | 1u << 8 | (1u << 4) << 10;  // a value, at this ^ 16
  units[(1 ^ 'a') ^ 16] = 2;
  std::string trie;
  for (const auto value : units) trie += unit(value);
  return unit(static_cast<uint32_t>(trie.size())) + trie + std::string("x\0bc\0", 5);
}

}  // namespace

TEST(Precompiled, FindsTheReplacementOfAPrefix) {
  const Charsmap map(one_key());
  const auto match = map.shortest("ab");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->bytes, 1u);
  EXPECT_EQ(match->replacement, "bc");
  EXPECT_FALSE(map.shortest("b"));
  EXPECT_FALSE(map.shortest(""));
}

TEST(Precompiled, TablesThatAreCutOffAreRefused) {
  EXPECT_THROW(Charsmap("\x01"), UserError);
  EXPECT_THROW(Charsmap(std::string("\xff\0\0\0abcd", 8)), UserError);
  EXPECT_THROW(Charsmap(std::string("\0\0\0\0\xff", 5)), UserError);
}

TEST(Precompiled, Base64GoesBothWays) {
  for (const auto& bytes : std::vector<std::string>{"", "a", "ab", "abc", "\xff\xfe\x01"})
    EXPECT_EQ(bytes_of_base64(base64_of(bytes)), bytes);
  EXPECT_EQ(base64_of("ab"), "YWI=");
  EXPECT_THROW(bytes_of_base64("a b"), UserError);
}

}  // namespace longbow
