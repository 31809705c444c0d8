#include "longbow/text/trainers/word_counts.h"

#include <stdexcept>

#include "tests/text/training.h"

namespace longbow {
namespace {

void by_blanks(std::string_view text, const TakeWord& take) {
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

TEST(WordCounts, AreSortedAndLeaveOutEmptyWords) {
  const auto words = count_words(training::texts({"b a  b", "", "a b c"}), by_blanks);
  EXPECT_EQ(words, (std::vector<WordCount>{{"a", 2}, {"b", 3}, {"c", 1}}));
}

TEST(WordCounts, AreTheSameForAnyNumberOfThreads) {
  std::vector<std::string> lines;
  for (int i = 0; i < 40000; ++i)
    lines.push_back("word" + std::to_string(i % 977) + " every w" + std::to_string(i / 3));
  const auto one = count_words(training::texts(lines), by_blanks, {.threads = 1});
  EXPECT_EQ(one.size(), 977u + 1 + 13334);
  EXPECT_EQ(one.front(), (WordCount{"every", 40000}));
  for (const unsigned threads : {2u, 7u})
    EXPECT_EQ(count_words(training::texts(lines), by_blanks, {.threads = threads}), one) << threads;
}

TEST(WordCounts, FollowNormalizerAndPreTokenizer) {
  const auto parts = nlohmann::ordered_json::parse(
      R"({"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"BertPreTokenizer"}})");
  EXPECT_EQ(training::counted({"He said: HE", ""}, parts),
            (std::vector<WordCount>{{":", 1}, {"he", 2}, {"said", 1}}));
}

TEST(WordCounts, WithoutComponentsATextIsAWord) {
  EXPECT_EQ(count_words(training::texts({"a b", "", "a b"}), split_by(nullptr, nullptr)),
            (std::vector<WordCount>{{"a b", 2}}));
}

TEST(WordCounts, SayHowManyBytesWereRead) {
  int64_t read = 0;
  count_words(training::texts({"abc", "de"}), by_blanks,
              {.threads = 1, .read = [&](int64_t bytes) { read = bytes; }});
  EXPECT_EQ(read, 7) << "line ends count";
}

TEST(WordCounts, AFailureOfEitherSideEndsTheCount) {
  const std::vector<std::string> many(100000, "some words in a line that is not short");
  const SplitWords broken = [](std::string_view, const TakeWord&) {
    throw std::runtime_error("split");
  };
  EXPECT_THROW(count_words(training::texts(many), broken, {.threads = 2}), std::runtime_error);
  int left = 5000;
  const NextText ending = [&](std::string& text) -> bool {
    if (--left == 0) throw std::runtime_error("read");
    text = "a b";
    return true;
  };
  EXPECT_THROW(count_words(ending, by_blanks, {.threads = 2}), std::runtime_error);
}

}  // namespace
}  // namespace longbow
