#include "longbow/text/trainers/piece_trie.h"

#include <gtest/gtest.h>

#include <utility>

namespace longbow {
namespace {

using Found = std::vector<std::pair<uint32_t, size_t>>;

Found prefixes(const PieceTrie& trie, std::string_view text) {
  Found found;
  trie.each_prefix(text, [&](uint32_t piece, size_t bytes) { found.emplace_back(piece, bytes); });
  return found;
}

TEST(PieceTrie, FindsEveryPieceThatATextBeginsWith) {
  const PieceTrie trie({"b", "abc", "a", "é", "ab", "abd"});
  EXPECT_EQ(prefixes(trie, "abcd"), (Found{{2, 1}, {4, 2}, {1, 3}}));
  EXPECT_EQ(prefixes(trie, "ab"), (Found{{2, 1}, {4, 2}}));
  EXPECT_EQ(prefixes(trie, "é"), (Found{{3, 2}}));
  EXPECT_EQ(prefixes(trie, "ca"), Found());
  EXPECT_EQ(prefixes(trie, ""), Found());
}

TEST(PieceTrie, MayBeEmpty) {
  EXPECT_EQ(prefixes(PieceTrie({}), "a"), Found());
}

}  // namespace
}  // namespace longbow
