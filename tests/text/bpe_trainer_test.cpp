#include "longbow/text/trainers/bpe_trainer.h"

#include <string>

#include "tests/text/training.h"

namespace longbow {
namespace {

using Tokens = std::vector<std::string>;
using training::full_collection;
using training::small_collection;

std::vector<std::string> merged(const TrainedBpe& trained) {
  std::vector<std::string> pairs;
  for (const auto& [left, right] : trained.merges)
    pairs.push_back(trained.tokens[left] + " " + trained.tokens[right]);
  return pairs;
}

TEST(BpeTrainer, MergesTheMostFrequentPairFirst) {
  // low 5, lower 2, newest 6, widest 3: the example of the paper, without end symbols.
  const auto trained = train_bpe({{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}},
                                 {.vocabulary = 15, .special_tokens = {"<unk>", "<unk>"}});
  EXPECT_EQ(trained.tokens, (Tokens{"<unk>", "d", "e", "i", "l", "n", "o", "r", "s", "t", "w", "es",
                                    "est", "lo", "low"}));
  EXPECT_EQ(merged(trained), (Tokens{"e s", "es t", "l o", "lo w"}));
}

TEST(BpeTrainer, TiesGoToTheSmallestIds) {
  EXPECT_EQ(merged(train_bpe({{"cd", 1}, {"ab", 1}, {"ad", 1}}, {})),
            (Tokens{"a b", "a d", "c d"}));
}

TEST(BpeTrainer, PairsOverlapButMergesDoNot) {
  const auto trained = train_bpe({{"aaaaa", 1}, {"bc", 3}}, {.vocabulary = 5});
  EXPECT_EQ(merged(trained), (Tokens{"a a", "b c"})) << "aaaaa has four pairs";
  EXPECT_EQ(trained.tokens, (Tokens{"a", "b", "c", "aa", "bc"}));
  EXPECT_EQ(merged(train_bpe({{"aaaaa", 1}}, {})), (Tokens{"a a", "aa a", "aa aaa"}));
}

TEST(BpeTrainer, StopsBelowTheLeastFrequency) {
  EXPECT_EQ(merged(train_bpe({{"ab", 3}, {"cd", 2}}, {.min_frequency = 3})), (Tokens{"a b"}));
}

TEST(BpeTrainer, TheAlphabetIsNeverCutToTheVocabulary) {
  EXPECT_EQ(train_bpe({{"abc", 9}}, {.vocabulary = 2}).tokens, (Tokens{"a", "b", "c"}));
}

TEST(BpeTrainer, ALimitedAlphabetKeepsTheMostFrequentAndThenTheSmallest) {
  const BpeTrainerOptions options = {.limit_alphabet = 2};
  EXPECT_EQ(train_bpe({{"z", 3}, {"b", 2}, {"a", 2}}, options).tokens, (Tokens{"a", "z"}));
  const auto skipped = train_bpe({{"zqz", 1}, {"z", 3}, {"aa", 2}}, options);
  EXPECT_EQ(merged(skipped), (Tokens{"a a", "z z"})) << "neighbours of a skipped one are adjacent";
}

TEST(BpeTrainer, TheInitialAlphabetCountsFirst) {
  const auto trained = train_bpe({{"aaab", 5}}, {.limit_alphabet = 2, .initial_alphabet = U"xa"});
  EXPECT_EQ(trained.tokens, (Tokens{"a", "x", "aa", "aaa"}));
}

TEST(BpeTrainer, PrefixesAndSuffixesMakeFormsOfTheirOwn) {
  const auto pieces = train_bpe({{"aba", 1}}, {.continuing_prefix = "##"});
  EXPECT_EQ(pieces.tokens, (Tokens{"a", "b", "##a", "##b", "ab", "aba"}));
  const auto ends = train_bpe({{"aba", 1}}, {.end_of_word_suffix = "</w>"});
  EXPECT_EQ(ends.tokens, (Tokens{"a", "b", "a</w>", "ab", "aba</w>"}));
  const auto ordered =
      train_bpe({{"aba", 1}}, {.continuing_prefix = "##", .first_symbols = {"##b", "##c"}});
  EXPECT_EQ(ordered.tokens, (Tokens{"a", "b", "##b", "##a", "ab", "aba"}));
}

TEST(BpeTrainer, TheLongestTokenIsShorterThanTheLimit) {
  const auto trained = train_bpe({{"abcdefgh", 4}}, {.max_token_length = 5});
  for (const auto& token : trained.tokens) EXPECT_LT(token.size(), 5u) << token;
}

TEST(BpeTrainer, ACharacterMayHaveSeveralBytes) {
  EXPECT_EQ(train_bpe({{"한국", 2}, {"한", 1}}, {}).tokens, (Tokens{"국", "한", "한국"}));
}

TEST(BpeTrainer, ReportsItsProgressAndMayBeEnded) {
  std::vector<WordCount> words;
  for (int i = 0; i < 3000; ++i) words.push_back({std::to_string(100000 + 7 * i), 1});
  EXPECT_THROW(train_bpe(words, {}, [](const char*, int64_t, int64_t) { throw 1; }), int);
}

TEST(BpeTrainer, TrainsWhatTheLibraryTrains) {
  const auto recorded = training::json_of(small_collection() / "trained.json");
  size_t compared = 0;
  for (const auto& recording : recorded.at("cases")) {
    const std::string kind = recording.at("kind");
    if (kind == "words") continue;
    SCOPED_TRACE(kind + " " + recording.at("options").dump());
    auto options = recording.at("options");
    options["special_tokens"] = recording.at("special_tokens");
    if (kind == "wordpiece") options["continuing_subword_prefix"] = "##";
    if (kind == "suffix") options["end_of_word_suffix"] = "</w>";
    if (kind == "bytes") options["initial_alphabet"] = "bytes";
    const auto name = recording.at("text").get<std::string>() + ".txt";
    const auto words = training::counted(training::lines_of(small_collection() / name), recording);
    training::expect_trained(words, training::bpe_options(options), recording.at("tokens"),
                             recording.value("merges", nlohmann::ordered_json()));
    ++compared;
  }
  EXPECT_EQ(compared, 9u);
}

class RecordedBpe : public testing::TestWithParam<const char*> {};

TEST_P(RecordedBpe, IsTrainedAgain) {
  const std::string name = GetParam();
  if (!exists(full_collection())) GTEST_SKIP() << "no collection of trained tokenizers";
  const auto file = training::json_of(full_collection() / (name + ".tokenizer.json"));
  const auto cases = training::json_of(full_collection() / "training.json").at("cases");
  Tokens tokens;
  for (const auto& entry : file.at("model").at("vocab").items()) tokens.push_back(entry.key());
  const auto text = full_collection() / ("corpus-" + name.substr(0, 2) + ".txt.xz");
  const auto words = training::counted(training::lines_of(text), file);
  EXPECT_EQ(words.size(), cases.at(name).at("distinct_words"));
  training::expect_trained(words, training::bpe_options(cases.at(name).at("options")), tokens,
                           file.at("model").value("merges", nlohmann::ordered_json()));
}

INSTANTIATE_TEST_SUITE_P(Library, RecordedBpe,
                         testing::Values("en-bpe-300", "en-bpe-2000", "en-bytelevel-300",
                                         "en-bytelevel-2000", "en-wordpiece-300",
                                         "en-wordpiece-2000", "ko-bpe-300", "ko-bpe-2000",
                                         "ko-bytelevel-300", "ko-bytelevel-2000",
                                         "ko-wordpiece-300", "ko-wordpiece-2000"));

}  // namespace
}  // namespace longbow
