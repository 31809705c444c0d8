#include "longbow/text/trainers/unigram_seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "longbow/core/seed.h"

namespace longbow {
namespace {

using Seeds = std::vector<std::pair<std::string, double>>;

Seeds seeds_of(const std::vector<WordCount>& words, int64_t max_length = 16, int64_t most = 1000) {
  Seeds seeds;
  for (const auto& piece : unigram_seeds(words, max_length, most))
    seeds.emplace_back(piece.text, piece.score);
  return seeds;
}

TEST(UnigramSeeds, AreCharactersThenStringsThatBranch) {
  // ab ends a word and goes on in another; bc and abc end every word that they are in.
  EXPECT_EQ(seeds_of({{"ab", 3}, {"abc", 2}}), (Seeds{{"b", 5}, {"a", 5}, {"c", 2}, {"ab", 4}}));
}

TEST(UnigramSeeds, AStringSeenAtWordEndsOnlyIsNone) {
  EXPECT_EQ(seeds_of({{"xab", 1}, {"yab", 1}}).size(), 4u);
}

TEST(UnigramSeeds, AreNotLongerThanAskedForAndNotMore) {
  const std::vector<WordCount> words = {{"abcd", 1}, {"abcde", 1}, {"abcx", 1}};
  const auto has = [](const Seeds& seeds, const std::string& text, double score) {
    return std::find(seeds.begin(), seeds.end(), std::pair(text, score)) != seeds.end();
  };
  EXPECT_TRUE(has(seeds_of(words, 4), "abcd", 8));
  EXPECT_FALSE(has(seeds_of(words, 3), "abcd", 8));
  EXPECT_TRUE(has(seeds_of(words, 3), "abc", 9));
  EXPECT_EQ(seeds_of(words, 3, 7).size(), 7u);
  EXPECT_EQ(seeds_of(words, 3, 7).back().first, "abc") << "the best of six characters and more";
  EXPECT_EQ(seeds_of(words, 3, 2).size(), 6u) << "characters are never cut";
}

// The definition, by looking at every substring of every word.
std::map<std::string, double> all_branching(const std::vector<WordCount>& words, size_t longest) {
  std::map<std::string, std::pair<int, std::set<char>>> found;
  for (const auto& [word, count] : words)
    for (size_t at = 0; at < word.size(); ++at)
      for (size_t length = 2; length <= longest && at + length <= word.size(); ++length) {
        auto& [times, next] = found[word.substr(at, length)];
        ++times;
        next.insert(at + length < word.size() ? word[at + length] : '\0');
      }
  std::map<std::string, double> branching;
  for (const auto& [text, entry] : found)
    if (entry.second.size() > 1)
      branching[text] = static_cast<double>(entry.first) * static_cast<double>(text.size());
  return branching;
}

TEST(UnigramSeeds, AreThoseOfTheDefinitionOnRandomWords) {
  Stream random(7, "words");
  std::set<std::string> distinct;
  for (int i = 0; i < 3000; ++i) {
    std::string word(static_cast<size_t>(1 + random.below(12)), 'a');
    for (auto& letter : word) letter = static_cast<char>('a' + random.below(3));
    distinct.insert(word);
  }
  std::vector<WordCount> words;
  for (const auto& word : distinct) words.push_back({word, 1});
  auto seeds = seeds_of(words, 5, 1'000'000);
  const auto expected = all_branching(words, 5);
  ASSERT_EQ(seeds.size(), 3 + expected.size());
  for (size_t i = 3; i < seeds.size(); ++i) {
    EXPECT_EQ(seeds[i].second, expected.at(seeds[i].first)) << seeds[i].first;
    if (i > 3)
      EXPECT_GT(std::pair(seeds[i - 1].second, seeds[i - 1].first),
                std::pair(seeds[i].second, seeds[i].first));
  }
}

}  // namespace
}  // namespace longbow
