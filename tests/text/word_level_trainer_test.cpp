#include "longbow/text/trainers/word_level_trainer.h"

#include "tests/text/training.h"

namespace longbow {
namespace {

using Tokens = std::vector<std::string>;

TEST(WordLevelTrainer, TakesTheMostFrequentWords) {
  const std::vector<WordCount> words = {{"a", 2}, {"b", 5}, {"c", 2}, {"d", 1}, {"[UNK]", 9}};
  EXPECT_EQ(train_word_level(words, {.special_tokens = {"[UNK]", "[UNK]"}}),
            (Tokens{"[UNK]", "b", "a", "c", "d"}));
  EXPECT_EQ(train_word_level(words, {.vocabulary = 3, .special_tokens = {"[UNK]"}}),
            (Tokens{"[UNK]", "b", "a"}));
  EXPECT_EQ(train_word_level(words, {.min_frequency = 3, .special_tokens = {"[UNK]"}}),
            (Tokens{"[UNK]", "b"}));
}

TEST(WordLevelTrainer, TrainsWhatTheLibraryTrains) {
  const auto folder = training::small_collection();
  size_t compared = 0;
  const auto recorded = training::json_of(folder / "trained.json");
  for (const auto& recording : recorded.at("cases")) {
    if (recording.at("kind") != "words") continue;
    const auto name = recording.at("text").get<std::string>() + ".txt";
    const auto words = training::counted(training::lines_of(folder / name), recording);
    const auto& options = recording.at("options");
    EXPECT_EQ(train_word_level(words, {.vocabulary = options.at("vocab_size"),
                                       .min_frequency = options.at("min_frequency"),
                                       .special_tokens = recording.at("special_tokens")}),
              recording.at("tokens").get<Tokens>());
    ++compared;
  }
  EXPECT_EQ(compared, 2u);
}

}  // namespace
}  // namespace longbow
