#include "tests/data/text_folder.h"

namespace longbow {
namespace {

using QuestionsData = TextFolder;

constexpr const char* kQuestion = R"({"data": [{"title": "t", "paragraphs": [{
  "context": "Seoul is the capital of Korea.", "qas": [
    {"id": "1", "question": "What is the capital?", "answers": [{"text": "Seoul", "answer_start": 0}]},
    {"id": "2", "question": "Of what?", "answers": [{"text": "Korea", "answer_start": 24}]}]}]}]})";

TEST_F(QuestionsData, AnAnswerIsAPlaceInItsContext) {
  file("q.json", kQuestion);
  const std::string files = "questions: {train: q.json, valid: q.json, test: q.json}";
  const auto splits =
      load("{name: questions, tokenizer: {train: wordpiece, min_frequency: 1}, " + files + "}");
  ASSERT_EQ(splits.train->size(), 2);
  const auto sample = splits.train->get(1);
  const std::vector<int32_t> answer(sample.second.begin() + sample.targets.at(0),
                                    sample.second.begin() + sample.targets.at(1) + 1);
  EXPECT_EQ(text_of(splits, answer), "korea");
  // With three tokens of the context left, the second answer is not there any more.
  const auto cut =
      load("{name: questions, max_tokens: 3, tokenizer: {train: wordpiece, min_frequency: 1}, " +
           files + "}");
  EXPECT_EQ(cut.train->size(), 1);
  EXPECT_EQ(cut.truncated, 6) << "of three splits";
}

}  // namespace
}  // namespace longbow
