#include "longbow/text/trainers/unigram_trainer.h"

#include <cmath>
#include <map>
#include <set>

#include "longbow/core/error.h"
#include "longbow/text/models/unigram.h"
#include "tests/text/training.h"

namespace longbow {
namespace {

using training::full_collection;
using training::small_collection;

const char* const kMetaspace = R"({"pre_tokenizer":{"type":"Metaspace","replacement":"▁",)"
                               R"("prepend_scheme":"always","split":true}})";

UnigramTrainerOptions options_of(const nlohmann::ordered_json& options) {
  UnigramTrainerOptions made;
  made.vocabulary = options.at("vocab_size");
  made.special_tokens = options.at("special_tokens").get<std::vector<std::string>>();
  made.unknown_token = options.value("unk_token", "");
  return made;
}

std::set<std::string> texts_of(const TrainedUnigram& trained) {
  std::set<std::string> texts;
  for (const auto& piece : trained.pieces) texts.insert(piece.text);
  return texts;
}

double common_share(const TrainedUnigram& trained, const nlohmann::ordered_json& pieces) {
  const auto own = texts_of(trained);
  double common = 0;
  for (const auto& piece : pieces) common += own.contains(piece[0].get<std::string>());
  return common / static_cast<double>(pieces.size());
}

// Without pruning the result is determined up to rounding; characters that were lost get scores in
// an order that the library leaves to chance.
void expect_same_scores(const TrainedUnigram& trained, const nlohmann::ordered_json& pieces) {
  std::map<std::string, double> expected;
  for (const auto& piece : pieces) expected[piece[0]] = piece[1];
  ASSERT_EQ(trained.pieces.size(), expected.size());
  const double least = trained.pieces.back().score;
  for (const auto& [text, score] : trained.pieces) {
    ASSERT_TRUE(expected.contains(text)) << text;
    EXPECT_NEAR(score, expected[text], score < least + 0.01 ? 0.01 : 1e-10) << text;
  }
}

TEST(UnigramTrainer, TrainsWhatTheLibraryTrainsWithoutPruning) {
  const auto recorded = training::json_of(small_collection() / "unigram.json").at("cases")[0];
  const auto words = training::counted(training::lines_of(small_collection() / "en.txt"),
                                       nlohmann::ordered_json::parse(kMetaspace));
  expect_same_scores(train_unigram(words, options_of(recorded.at("options"))),
                     recorded.at("pieces"));
}

TEST(UnigramTrainer, PrunesNearlyWhatTheLibraryPrunes) {
  const auto recorded = training::json_of(small_collection() / "unigram.json").at("cases")[1];
  const auto words = training::counted(training::lines_of(small_collection() / "ko.txt"),
                                       nlohmann::ordered_json::parse(kMetaspace));
  const auto trained = train_unigram(words, options_of(recorded.at("options")));
  EXPECT_EQ(trained.pieces.size(), 900u);
  EXPECT_EQ(trained.unknown_id, 1);
  EXPECT_GE(common_share(trained, recorded.at("pieces")), 0.9);
}

class RecordedUnigram : public testing::TestWithParam<const char*> {};

TEST_P(RecordedUnigram, IsTrainedAgainButForAFewPieces) {
  const std::string name = GetParam();
  if (!exists(full_collection())) GTEST_SKIP() << "no collection of trained tokenizers";
  const auto file = training::json_of(full_collection() / (name + ".tokenizer.json"));
  const auto options =
      training::json_of(full_collection() / "training.json").at("cases").at(name).at("options");
  const auto text = full_collection() / ("corpus-" + name.substr(0, 2) + ".txt.xz");
  const auto words = training::counted(training::lines_of(text), file);
  const auto trained = train_unigram(words, options_of(options));
  const auto& pieces = file.at("model").at("vocab");
  EXPECT_EQ(trained.pieces.size(), pieces.size());
  EXPECT_GE(common_share(trained, pieces), 0.9);
}

INSTANTIATE_TEST_SUITE_P(Library, RecordedUnigram,
                         testing::Values("en-unigram-300", "en-unigram-2000", "ko-unigram-300",
                                         "ko-unigram-2000"));

const std::vector<WordCount>& some_words() {
  static const auto words = training::counted(training::lines_of(small_collection() / "en.txt"),
                                              nlohmann::ordered_json::parse(kMetaspace));
  return words;
}

TEST(UnigramTrainer, IsTheSameForAnyNumberOfThreads) {
  const auto one = train_unigram(some_words(), {.vocabulary = 300, .threads = 1});
  const auto five = train_unigram(some_words(), {.vocabulary = 300, .threads = 5});
  ASSERT_EQ(one.pieces.size(), five.pieces.size());
  for (size_t i = 0; i < one.pieces.size(); ++i) {
    EXPECT_EQ(one.pieces[i].text, five.pieces[i].text);
    EXPECT_EQ(one.pieces[i].score, five.pieces[i].score);
  }
}

TEST(UnigramTrainer, KeepsEveryCharacterAndFallsInScore) {
  const auto trained = train_unigram(some_words(), {.vocabulary = 120, .initial_alphabet = U"ʘ"});
  EXPECT_EQ(trained.pieces.size(), 120u);
  const auto texts = texts_of(trained);
  EXPECT_TRUE(texts.contains("ʘ"));
  for (const auto& word : some_words())
    for (const char c : word.word)
      if (static_cast<unsigned char>(c) < 0x80) {
        EXPECT_TRUE(texts.contains(std::string(1, c))) << c;
      }
  for (size_t i = 1; i < trained.pieces.size(); ++i)
    EXPECT_GE(trained.pieces[i - 1].score, trained.pieces[i].score);
}

TEST(UnigramTrainer, TheUnknownTokenIsASpecialOneOrComesFirst) {
  const auto first = train_unigram(
      some_words(), {.vocabulary = 200, .special_tokens = {"<s>"}, .unknown_token = "<unk>"});
  EXPECT_EQ(first.unknown_id, 0);
  EXPECT_EQ(first.pieces[0].text, "<unk>");
  EXPECT_EQ(first.pieces[1].text, "<s>");
  EXPECT_EQ(first.pieces[1].score, 0);
  EXPECT_EQ(first.pieces.size(), 200u);
  EXPECT_FALSE(train_unigram(some_words(), {.vocabulary = 200}).unknown_id.has_value());
}

TEST(UnigramTrainer, SpecialTokensInTheTextsAreNoPieces) {
  const std::vector<WordCount> words = {{"cat[SEP]dog", 9}, {"sun[SEP]sea", 7}, {"cat", 5}};
  const auto trained = train_unigram(
      words, {.vocabulary = 40, .special_tokens = {"[SEP]", "a"}, .unknown_token = "<unk>"});
  EXPECT_EQ(trained.pieces[1].text, "[SEP]");
  EXPECT_EQ(trained.pieces[2].text, "a");
  EXPECT_EQ(texts_of(trained).size(), trained.pieces.size()) << "each is there once";
  std::vector<UnigramPiece> pieces;
  for (const auto& piece : trained.pieces) pieces.emplace_back(piece.text, piece.score);
  EXPECT_NO_THROW(make_unigram({}, pieces));
}

TEST(UnigramTrainer, AVocabularyBelowTheCharactersIsRefused) {
  try {
    train_unigram({{"abc", 1}, {"ab", 1}}, {.vocabulary = 2});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "a vocabulary of 2 cannot hold the 3 characters of the texts; ask for a larger "
                 "vocabulary");
  }
}

TEST(UnigramTrainer, MayHoldNothingButCharacters) {
  EXPECT_EQ(train_unigram({{"ab", 3}, {"abc", 2}, {"b", 5}}, {.vocabulary = 3}).pieces.size(), 3u);
}

TEST(UnigramTrainer, ReportsRoundsAndMayBeEnded) {
  EXPECT_THROW(train_unigram(some_words(), {.vocabulary = 200},
                             [](const char*, int64_t, int64_t) { throw 1; }),
               int);
}

}  // namespace
}  // namespace longbow
