#include "longbow/text/trainers/train_tokenizer.h"

#include <set>

#include "longbow/core/error.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "tests/text/training.h"

namespace longbow {
namespace {

using Tokens = std::vector<std::string>;

const Tokens& lines() {
  static const auto all = training::lines_of(training::small_collection() / "en.txt");
  return all;
}

Tokenizer trained(const TrainTokenizerOptions& options) {
  return train_tokenizer(options, training::texts(lines()));
}

TrainTokenizerOptions of(TokenizerKind kind, int64_t vocabulary) {
  TrainTokenizerOptions options;
  options.kind = kind;
  options.vocabulary = vocabulary;
  return options;
}

TrainTokenizerOptions from_yaml(const std::string& yaml) {
  return read<TrainTokenizerOptions>(parse_yaml(yaml, "t.yaml"));
}

void expect_refused(const TrainTokenizerOptions& options, const std::string& message) {
  try {
    trained(options);
    FAIL() << message;
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()), message);
  }
}

class EveryKind : public testing::TestWithParam<TokenizerKind> {};

TEST_P(EveryKind, IsTrainedWrittenReadAndGivesTheTextBack) {
  TrainTokenizerOptions options;
  options.kind = GetParam();
  if (options.kind == TokenizerKind::wordpiece) options.lowercase = false;
  if (options.kind != TokenizerKind::bytes) options.vocabulary = 900;
  const auto tokenizer = trained(options);
  EXPECT_LE(tokenizer.size(), 900u);
  const auto again = parse_tokenizer_json(tokenizer_json(tokenizer), "t.json");
  EXPECT_EQ(tokenizer_json(again), tokenizer_json(tokenizer));
  // Of its own texts nothing is lost; words and WordPiece join by blanks, so the text has them.
  const std::string text = "the day that I said it";
  const auto encoding = again.encode(text);
  EXPECT_EQ(encoding.ids, tokenizer.encode(text).ids);
  EXPECT_EQ(again.decode(encoding.ids), text);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind,
                         testing::Values(TokenizerKind::wordpiece, TokenizerKind::bpe,
                                         TokenizerKind::byte_bpe, TokenizerKind::sentencepiece_bpe,
                                         TokenizerKind::unigram, TokenizerKind::words,
                                         TokenizerKind::characters, TokenizerKind::bytes),
                         [](const auto& kind) { return name_of(kind.param); });

TEST(TrainTokenizer, AWordPieceHasBertsTokensAndTemplate) {
  const auto tokenizer = trained(of(TokenizerKind::wordpiece, 500));
  EXPECT_EQ(tokenizer.size(), 500u);
  EXPECT_EQ(tokenizer.id_of("[PAD]"), 0);
  EXPECT_EQ(tokenizer.id_of("[MASK]"), 4);
  const auto pair = tokenizer.encode("The", "day");
  ASSERT_GE(pair.size(), 5u);
  EXPECT_EQ(pair.tokens.front(), "[CLS]");
  EXPECT_EQ(pair.tokens[1], "the") << "lower case by default";
  EXPECT_EQ(pair.tokens.back(), "[SEP]");
  EXPECT_EQ(pair.type_ids.front(), 0);
  EXPECT_EQ(pair.type_ids.back(), 1);
  auto options = of(TokenizerKind::wordpiece, 500);
  options.templates = false;
  EXPECT_EQ(trained(options).encode("the").tokens, Tokens{"the"});
}

TEST(TrainTokenizer, IsTheVocabularyOfTheTrainerBelow) {
  const auto recorded = training::json_of(training::small_collection() / "trained.json");
  const auto& wordpiece = recorded.at("cases")[0];
  const auto tokenizer = trained(of(TokenizerKind::wordpiece, 500));
  std::set<std::string> tokens;
  for (size_t id = 0; id < tokenizer.size(); ++id)
    tokens.insert(tokenizer.token_of(static_cast<int32_t>(id)));
  size_t common = 0;
  for (const auto& token : wordpiece.at("tokens")) common += tokens.contains(token);
  EXPECT_GE(common, 490u) << "ties between pairs are broken by ids, which the library draws";
}

TEST(TrainTokenizer, AnyTextIsBytes) {
  auto options = of(TokenizerKind::byte_bpe, 300);
  options.special_tokens = {"<s>"};
  const std::string text = "gräßlich 한국어 \xf0\x9f\x98\x80\n";
  const auto merged = trained(options);
  EXPECT_EQ(merged.decode(merged.encode(text).ids), text);
  TrainTokenizerOptions plain;
  plain.kind = TokenizerKind::bytes;
  plain.special_tokens = {"<pad>", "<s>"};
  const auto bytes = train_tokenizer(plain, {});
  EXPECT_EQ(bytes.size(), 258u);
  EXPECT_EQ(bytes.encode("a \n").ids, (std::vector<int32_t>{2 + 'a', 2 + ' ', 2 + '\n'}));
  EXPECT_EQ(bytes.decode(bytes.encode(text).ids), text);
}

TEST(TrainTokenizer, CharactersAndWordsAreCounted) {
  auto options = of(TokenizerKind::characters, 4);
  const auto characters = train_tokenizer(options, training::texts({"aab c", "ab"}));
  EXPECT_EQ(characters.encode("abc").tokens, (Tokens{"a", "b", "<unk>"}));
  EXPECT_EQ(characters.id_of("a"), 1);
  options = of(TokenizerKind::words, 100);
  options.min_frequency = 2;
  options.unknown_token = "?";
  options.special_tokens = {"<pad>", "?"};
  const auto words = train_tokenizer(options, training::texts({"to be or", "not to be"}));
  EXPECT_EQ(words.size(), 4u);
  EXPECT_EQ(words.encode("to be it").tokens, (Tokens{"to", "be", "?"}));
}

TEST(TrainTokenizer, NormalizesAsAsked) {
  auto options = of(TokenizerKind::words, 100);
  options.normal_form = TextForm::nfkc;
  options.strip_accents = true;
  options.lowercase = true;
  const auto words = train_tokenizer(options, training::texts({"\uff21\u00c9"}));
  EXPECT_GE(words.id_of("ae"), 0);
}

TEST(TrainTokenizer, ReadsItsOptionsFromAConfig) {
  const auto options = from_yaml("{train: byte_bpe, vocabulary: 400, special_tokens: [<s>, </s>]}");
  EXPECT_EQ(options.kind, TokenizerKind::byte_bpe);
  EXPECT_EQ(options.special_tokens, (Tokens{"<s>", "</s>"}));
  EXPECT_EQ(trained(options).size(), 400u);
  EXPECT_THROW(from_yaml("{vocabulry: 3}"), UserError);
}

TEST(TrainTokenizer, RefusesOptionsOfAnotherKind) {
  auto options = of(TokenizerKind::bpe, 100);
  options.shrinking_factor = 0.5;
  expect_refused(options, "shrinking_factor is not an option of bpe; kinds that have it: unigram");
  options = of(TokenizerKind::words, 100);
  options.special_tokens = {""};
  expect_refused(options, "special_tokens has an empty token; remove it");
  options = of(TokenizerKind::words, 100);
  options.unknown_token = "";
  expect_refused(options, "unknown_token is empty; leave it out to have the default");
  options = {.kind = TokenizerKind::bytes, .special_tokens = {{"<s>", "\u0120"}}};
  expect_refused(options,
                 "special_tokens has '\u0120', which is the token of a byte; give one of several "
                 "characters");
}

TEST(TrainTokenizer, NeedsWords) {
  try {
    train_tokenizer({}, training::texts({"", "  "}));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the texts hold no words; a tokenizer is trained on at least one word");
  }
}

}  // namespace
}  // namespace longbow
