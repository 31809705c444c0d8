#include "longbow/text/models/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "longbow/core/error.h"

namespace longbow {
namespace {

std::vector<int32_t> ids(const TokenModelPtr& model, std::string_view word) {
  ModelScratch scratch;
  std::vector<WordToken> tokens;
  model->tokenize(word, scratch, tokens);
  std::vector<int32_t> out;
  for (const auto& token : tokens) out.push_back(token.id);
  return out;
}

using Ids = std::vector<int32_t>;

// The definition: the pair of lowest rank, leftmost, again and again.
std::vector<std::string> merged(std::string_view word, const std::vector<BpeMerge>& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      for (size_t rank = 0; rank < best; ++rank)
        if (merges[rank] == BpeMerge{parts[i], parts[i + 1]}) best = rank, at = i;
    if (best == merges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST(Bpe, MergesAsDefined) {
  std::mt19937 random(1);
  const auto draw = [&](size_t below) { return random() % below; };
  for (int round = 0; round < 50; ++round) {
    std::vector<VocabularyEntry> entries = {{"a", 0}, {"b", 1}, {"c", 2}};
    std::vector<BpeMerge> merges;
    for (int i = 0; i < 12; ++i) {
      const auto left = entries[draw(entries.size())].first,
                 right = entries[draw(entries.size())].first;
      const bool is_new = std::none_of(entries.begin(), entries.end(), [&](const auto& entry) {
        return entry.first == left + right;
      });
      if (!is_new) continue;
      merges.emplace_back(left, right);
      entries.emplace_back(left + right, static_cast<int32_t>(entries.size()));
    }
    const auto model = make_bpe({}, entries, merges);
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (size_t length = 1 + draw(30); word.size() < length;)
        word += static_cast<char>('a' + draw(3));
      std::vector<std::string> got;
      for (const auto id : ids(model, word)) got.emplace_back(model->vocabulary().token_of(id));
      EXPECT_EQ(got, merged(word, merges)) << word;
    }
  }
}

TEST(Bpe, UnknownCharactersAreFusedFallBackOrAreLeftOut) {
  const std::vector<VocabularyEntry> entries = {{"?", 0}, {"a", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}};
  BpeOptions options;
  EXPECT_EQ(ids(make_bpe(options, entries, {}), "axya"), (Ids{1, 1}));
  options.unk_token = "?";
  EXPECT_EQ(ids(make_bpe(options, entries, {}), "axya"), (Ids{1, 0, 0, 1}));
  options.fuse_unk = true;
  EXPECT_EQ(ids(make_bpe(options, entries, {}), "axya"), (Ids{1, 0, 1}));
  options.byte_fallback = true;
  EXPECT_EQ(ids(make_bpe(options, entries, {}), "a\u00e9"), (Ids{1, 2, 3}));
  options.unk_token = "missing";
  EXPECT_THROW(ids(make_bpe(options, entries, {}), "x"), UserError);
}

TEST(Bpe, PrefixAndSuffixMarkTheEndsOfWords) {
  BpeOptions options;
  options.end_of_word_suffix = "</w>";
  options.continuing_subword_prefix = "#";
  const auto model = make_bpe(
      options, {{"a", 0}, {"#b", 1}, {"#b</w>", 2}, {"ab", 3}, {"a</w>", 4}}, {{"a", "#b"}});
  EXPECT_EQ(ids(model, "abb"), (Ids{3, 2}));
  EXPECT_EQ(ids(model, "a"), (Ids{4}));
}

TEST(Bpe, AWordThatIsATokenMayIgnoreTheMerges) {
  BpeOptions options;
  const std::vector<VocabularyEntry> entries = {{"a", 0}, {"b", 1}, {"ab", 2}};
  EXPECT_EQ(ids(make_bpe(options, entries, {}), "ab"), (Ids{0, 1}));
  options.ignore_merges = true;
  EXPECT_EQ(ids(make_bpe(options, entries, {}), "ab"), (Ids{2}));
}

}  // namespace longbow
