#include "longbow/tasks/masking.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/data/samples/text_codec.h"
#include "longbow/text/models/word_piece.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWords = 50;

MaskIds ids_of(int64_t vocabulary, const std::vector<std::string>& symbols = {}) {
  return MaskIds({.vocabulary = vocabulary, .symbols = symbols});
}

// A WordPiece tokenizer with four special tokens, three words and two parts of words.
Splits word_pieces() {
  const std::vector<std::string> names = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "one",
                                          "two",   "three", "##a",   "##b"};
  std::vector<VocabularyEntry> entries;
  TokenizerParts parts;
  for (const auto& name : names) {
    const auto id = static_cast<int32_t>(entries.size());
    entries.emplace_back(name, id);
    if (id < 4) parts.added_tokens.push_back({.id = id, .content = name, .special = true});
  }
  parts.model = make_word_piece({}, entries);
  return {.vocabulary = std::ssize(names),
          .codec = std::make_shared<TextCodec>(Tokenizer(parts)),
          .symbols = names};
}

// Rows of words 3 … 49 with two special tokens in front and padding behind.
Tensor text(int64_t rows, int64_t length, int64_t padding) {
  auto tokens = at::arange(rows * length, at::kLong).remainder(kWords - 3).add(3).view({rows, -1});
  tokens.narrow(1, 0, 1).fill_(1);
  tokens.narrow(1, 1, 1).fill_(2);
  tokens.narrow(1, length - padding, padding).fill_(0);
  return tokens;
}
Tensor keep_of(int64_t rows, int64_t length, int64_t padding) {
  return Mask::from_lengths(at::full({rows}, length - padding, at::kLong), length).keep;
}

double share(const Tensor& what, const Tensor& of) {
  return what.logical_and(of).sum().item<double>() / of.sum().item<double>();
}

TEST(Masking, ChoosesHidesAndReplacesInTheSharesAskedFor) {
  const auto tokens = text(400, 102, 20);
  const auto keep = keep_of(400, 102, 20);
  const MaskingConfig config = {.fraction = 0.2, .masked = 0.7, .random = 0.2, .first_token = 3};
  const auto got = masked(tokens, keep, config, ids_of(kWords), Random::from_seed(1));
  const auto words = keep.logical_and(tokens >= 3);
  EXPECT_EQ(words.sum().item<int64_t>(), 400 * 80);
  EXPECT_TRUE(at::equal(got.allowed, words));
  // 32000 words, 6400 chosen: about four standard deviations.
  EXPECT_NEAR(share(got.chosen, words), 0.2, 0.009);
  const auto hidden = got.tokens == kWords, changed = got.tokens != tokens;
  EXPECT_NEAR(share(hidden, got.chosen), 0.7, 0.023);
  // A random word is the old one in one of 47 draws.
  EXPECT_NEAR(share(changed.logical_and(hidden.logical_not()), got.chosen), 0.2 * 46 / 47, 0.02);
  EXPECT_EQ(changed.logical_and(got.chosen.logical_not()).sum().item<int64_t>(), 0);
  EXPECT_TRUE(at::equal(got.targets == kIgnore, got.chosen.logical_not()));
  EXPECT_TRUE(at::equal(got.targets.masked_select(got.chosen), tokens.masked_select(got.chosen)));
}

TEST(Masking, NeverTouchesPaddingOrSpecialTokens) {
  const auto tokens = text(20, 30, 7);
  const auto keep = keep_of(20, 30, 7);
  const auto got = masked(tokens, keep, {.fraction = 1, .masked = 0, .random = 1, .first_token = 3},
                          ids_of(kWords), Random::from_seed(2));
  const auto special = tokens < 3;
  EXPECT_TRUE(at::equal(got.chosen, special.logical_not()));
  EXPECT_TRUE(at::equal(got.tokens.masked_select(special), tokens.masked_select(special)));
  const auto drawn = got.tokens.masked_select(got.chosen);
  EXPECT_EQ(drawn.min().item<int64_t>(), 3);
  EXPECT_EQ(drawn.max().item<int64_t>(), kWords - 1);
}

TEST(Masking, IsAFunctionOfTheKey) {
  const auto tokens = text(4, 30, 0);
  const auto draw = [&](int64_t step) {
    return masked(tokens, {}, {}, ids_of(kWords), Random::from_seed(1, step)).tokens;
  };
  EXPECT_TRUE(at::equal(draw(5), draw(5)));
  EXPECT_FALSE(at::equal(draw(5), draw(6)));
}

TEST(Masking, TheMaskTokenIsTheDatasOwnOrOneMore) {
  EXPECT_EQ(ids_of(7).mask, 7);
  EXPECT_EQ(ids_of(7).inputs(), 8);
  const auto own = ids_of(4, {"<pad>", "[CLS]", "[MASK]", "a"});
  EXPECT_EQ(own.mask, 2);
  EXPECT_EQ(own.inputs(), 4);
  EXPECT_EQ(ids_of(3, {"<pad>", "<mask>", "a"}).mask, 1);
  const auto tokens = at::tensor({2, 3, 2, 3}, at::kLong).view({1, 4});
  const auto got =
      masked(tokens, {}, {.fraction = 1, .masked = 1, .random = 0}, own, Random::from_seed(1));
  EXPECT_TRUE(at::equal(got.tokens, at::full({1, 4}, 2, at::kLong)));
  EXPECT_TRUE(at::equal(got.targets, at::tensor({-100, 3, -100, 3}, at::kLong).view({1, 4})));
}

TEST(Masking, TheSymbolsKnowTheIdOfUnknownWords) {
  const Splits splits = {.vocabulary = 3, .unknown = 1, .symbols = {"<pad>", "<unk>", "a"}};
  EXPECT_EQ(MaskIds(splits).symbols(splits).read("a b [MASK]", {}),
            (std::vector<int32_t>{2, 1, 3}));
}

TEST(Masking, RefusesSharesThatDoNotFit) {
  const auto model = parse_yaml("width: 8\nmasking: {masked: 0.8, random: 0.3}", "m.yaml");
  const auto config = read<MaskingConfig>(*model.find("masking"), "masking");
  EXPECT_EQ(error_of([&] { check_masking(config, model); }),
            "m.yaml:2: masking.masked and masking.random are more than 1 together; what they leave "
            "of 1 stays as it is");
  EXPECT_EQ(error_of([&] { check_masking({}, model); }), "");
}

TEST(Masking, RefusesToHideNoToken) {
  const auto model = parse_yaml("masking:\n  first_token: 10", "m.yaml");
  const auto config = read<MaskingConfig>(*model.find("masking"), "masking");
  const auto error = [&](int64_t vocabulary) {
    return error_of([&] { check_masked_data(config, {.vocabulary = vocabulary}, model); });
  };
  EXPECT_EQ(error(10), "m.yaml:2: masking.first_token is 10, but the data has 10 tokens; lower it");
  EXPECT_EQ(error(11), "");
}

TEST(Masking, RefusesWholeWordsWhereThereAreNone) {
  const auto model = parse_yaml("masking:\n  whole_words: true", "m.yaml");
  const auto config = read<MaskingConfig>(*model.find("masking"), "masking");
  EXPECT_EQ(error_of([&] { check_masked_data(config, {.vocabulary = 10}, model); }),
            "m.yaml:2: masking.whole_words is true, but the data is not text; leave it out: every "
            "token is a word");
  EXPECT_EQ(error_of([&] { check_masked_data(config, word_pieces(), model); }), "");
}

TEST(Masking, HidesAllTokensOfAWordOrNone) {
  // [CLS] one ##a ##b two ##b [SEP] three ##a [PAD]; the special tokens part the words.
  const auto row = at::tensor({2, 4, 7, 8, 5, 8, 3, 7, 6, 7, 0, 0}, at::kLong);
  const auto tokens = row.expand({4000, -1}).contiguous();
  const auto keep = keep_of(4000, 12, 2);
  const MaskIds ids(word_pieces());
  const MaskingConfig config = {.fraction = 0.2, .whole_words = true};
  const auto got = masked(tokens, keep, config, ids, Random::from_seed(3));
  const auto column = [&](int64_t i) { return got.chosen.select(1, i); };
  for (const auto& [first, second] : {std::pair(1, 2), {1, 3}, {4, 5}, {8, 9}})
    EXPECT_TRUE(at::equal(column(first), column(second))) << first << " and " << second;
  for (const auto& [one, other] : {std::pair(1, 4), {5, 7}, {7, 8}, {4, 8}})
    EXPECT_FALSE(at::equal(column(one), column(other))) << one << " and " << other;
  for (const auto i : {0, 6, 10, 11}) EXPECT_FALSE(column(i).any().item<bool>()) << i;
  // 8 of a row's 10 tokens are of words, in 4 words of 4000 rows: about five standard deviations.
  EXPECT_NEAR(share(got.chosen, got.allowed), 0.2, 0.02);
  EXPECT_TRUE(at::equal(got.targets.masked_select(got.chosen), tokens.masked_select(got.chosen)));
}

TEST(Masking, NeverHidesASpecialTokenOfATokenizer) {
  const auto tokens = at::arange(9, at::kLong).expand({50, -1}).contiguous();
  const auto got =
      masked(tokens, {}, {.fraction = 1}, MaskIds(word_pieces()), Random::from_seed(1));
  EXPECT_EQ(got.chosen.sum(0).gt(0).sum().item<int64_t>(), 5);
  EXPECT_FALSE(got.chosen.slice(1, 0, 4).any().item<bool>());
}

}  // namespace
}  // namespace longbow
