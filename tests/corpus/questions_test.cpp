#include "longbow/corpus/readers/questions.h"

#include <gtest/gtest.h>

#include <set>

#include "longbow/core/seed.h"
#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

using Shown = std::vector<std::string>;

std::string shown(const Record& record) {
  auto all =
      record.group + ": " + record.id + " " + record.texts.at(0) + " [" + record.texts.at(1) + "]";
  for (const auto& answer : record.answers)
    all +=
        " " + answer.text + "@" + std::to_string(answer.start) + "/" + std::to_string(answer.byte);
  return all;
}

Shown questions(const std::string& text, const QuestionOptions& options = {},
                ReadCounts* counts = nullptr) {
  Shown all;
  auto file = TextFile::in_memory(text, "a.json");
  const auto found =
      read_questions(file, options, [&](Record&& record) { all.push_back(shown(record)); });
  EXPECT_EQ(found.records, std::ssize(all));
  if (counts) *counts = found;
  return all;
}

std::string refused(const std::string& text, const QuestionOptions& options = {}) {
  return mistake([&] { questions(text, options); });
}

// A file of one paragraph with these questions.
std::string about(const std::string& context, const std::string& asked) {
  return "{\"version\": \"1.1\", \"data\": [\n{\"title\": \"T\", \"paragraphs\": [\n{\"context\": "
         "\"" +
         context + "\", \"qas\": [\n" + asked + "]}]}]}";
}

TEST(Questions, AreReadInAnyOrderOfTheirKeys) {
  const Shown wanted = {"T: 1 who? [한 man and a man] man@2/4 man@12/14",
                        "T: 2 why? [한 man and a man]"};
  EXPECT_EQ(questions(about("한 man and a man",
                            "{\"id\": \"1\", \"question\": \"who?\", \"answers\": [{\"text\": "
                            "\"man\", \"answer_start\": 2}, {\"answer_start\": 12, \"text\": "
                            "\"man\"}]}, {\"question\": \"why?\", \"answers\": [], \"id\": \"2\", "
                            "\"is_impossible\": true}")),
            wanted);
  EXPECT_EQ(questions("{\"data\": [{\"paragraphs\": [{\"qas\": [{\"question\": \"who?\", "
                      "\"answers\": [{\"text\": \"man\", \"answer_start\": 2}, {\"text\": \"man\", "
                      "\"answer_start\": 12}], \"id\": 1}, {\"id\": 2, \"question\": \"why?\"}], "
                      "\"context\": \"한 man and a man\"}], \"title\": \"T\"}], \"version\": {}}"),
            wanted);
}

TEST(Questions, ThatAreImpossibleHaveNoAnswers) {
  EXPECT_EQ(questions(about("a b",
                            "{\"id\": \"1\", \"question\": \"?\", \"is_impossible\": true, "
                            "\"answers\": [{\"text\": \"c\", \"answer_start\": 0}], "
                            "\"plausible_answers\": [{\"text\": \"a\"}]}")),
            Shown{"T: 1 ? [a b]"});
}

std::string answered(const std::string& context, const std::string& text, int64_t start) {
  return about(context, "{\"id\": \"q7\", \"question\": \"?\", \"answers\": [{\"text\": \"" + text +
                            "\", \"answer_start\": " + std::to_string(start) + "}]}");
}

TEST(Questions, NameAnswersThatAreNotInTheirPlace) {
  const std::string hint = "; set misplaced: repair or misplaced: skip";
  EXPECT_EQ(
      refused(answered("one two", "two", 3)),
      "a.json:4: question 'q7': the answer 'two' is not at character 3 of its context" + hint);
  EXPECT_EQ(
      refused(answered("one two", "two", 400)),
      "a.json:4: question 'q7': the answer 'two' is not at character 400 of its context" + hint);
  EXPECT_EQ(
      refused(answered("one two", "one", -1)),
      "a.json:4: question 'q7': the answer 'one' is not at character -1 of its context" + hint);
  EXPECT_EQ(
      refused(answered("한국어 one", "one", 8)),
      "a.json:4: question 'q7': the answer 'one' is not at character 8 of its context" + hint);
  EXPECT_EQ(refused(answered("one two", "", 0)),
            "a.json:4: question 'q7': an answer is empty" + hint);
}

TEST(Questions, AreRepairedByTheNearestOccurrence) {
  const QuestionOptions repair = {.misplaced = Misplaced::repair};
  ReadCounts counts;
  const std::string context = "한 x 한 x 한 x";  // x at 2, 6, 10
  const auto at = [&](int64_t start) {
    return questions(answered(context, "x", start), repair, &counts).at(0);
  };
  EXPECT_EQ(at(5), "T: q7 ? [한 x 한 x 한 x] x@6/10");
  EXPECT_EQ(counts.repaired, 1);
  EXPECT_EQ(at(3), "T: q7 ? [한 x 한 x 한 x] x@2/4");
  EXPECT_EQ(at(99), "T: q7 ? [한 x 한 x 한 x] x@10/16");
  EXPECT_EQ(at(-5), "T: q7 ? [한 x 한 x 한 x] x@2/4");
  EXPECT_EQ(at(6), "T: q7 ? [한 x 한 x 한 x] x@6/10");
  EXPECT_EQ(counts.repaired, 0) << "it was right";
  EXPECT_EQ(questions(answered(context, "y", 0), repair, &counts), Shown());
  EXPECT_EQ(counts.skipped, 1);
}

TEST(Questions, AreSkippedWithoutAnAnswerInItsPlace) {
  const QuestionOptions skip = {.misplaced = Misplaced::skip};
  ReadCounts counts;
  EXPECT_EQ(questions(answered("one two", "two", 3), skip, &counts), Shown());
  EXPECT_EQ(counts.skipped, 1);
  EXPECT_EQ(questions(about("a b",
                            "{\"id\": \"1\", \"question\": \"?\", \"answers\": [{\"text\": "
                            "\"b\", \"answer_start\": 0}, {\"text\": \"b\", "
                            "\"answer_start\": 2}]}"),
                      skip, &counts),
            Shown{"T: 1 ? [a b] b@2/2"});
  EXPECT_EQ(counts.skipped, 0);
}

TEST(Questions, RefuseFilesOfAnotherForm) {
  EXPECT_EQ(refused(""), "a.json: is empty");
  EXPECT_EQ(refused("[]"), "a.json:1: the file is not an object");
  EXPECT_EQ(refused("{\"dat\": []}"),
            "a.json: no key 'data'; a file of questions is {\"data\": [{\"title\": ..., "
            "\"paragraphs\": ...}]}");
  EXPECT_EQ(refused("{\"data\": {}}"), "a.json:1: data is not a list");
  EXPECT_EQ(refused("{\"data\":\n [1]}"), "a.json:2: an article is not an object");
  EXPECT_EQ(refused("{\"data\": [{\"title\": 1}]}"), "a.json:1: title is not a string");
  EXPECT_EQ(refused("{\"data\": [{\"paragraphs\": [{\"qas\": []}]}]}"),
            "a.json:1: a paragraph has no context");
  EXPECT_EQ(refused(about("a", "{\"id\": \"1\"}")), "a.json:4: question '1' has no text");
  EXPECT_EQ(refused(about("a", "{\"id\": \"1\", \"answers\": [{\"text\": \"a\"}]}")),
            "a.json:4: an answer of question '1' lacks answer_start");
  EXPECT_EQ(refused(about("a", "{\"id\": \"1\", \"answers\": [{\"answer_start\": 1}]}")),
            "a.json:4: an answer of question '1' lacks text");
  for (const auto* start : {"\"1\"", "1.5", "99999999999999999999"})
    EXPECT_EQ(
        refused(about("a", std::string("{\"answers\": [{\"answer_start\": ") + start + "}]}")),
        "a.json:4: answer_start is not an integer");
  EXPECT_EQ(refused(about("a", "{\"is_impossible\": 1}")),
            "a.json:4: is_impossible is not true or false");
  EXPECT_EQ(refused(about("a", "{\"question\": \"?\"}").substr(0, 90)),
            "a.json:4: not valid JSON: a string does not end");
}

TEST(Questions, AreReadOrRefusedInOneLineWhateverTheBytes) {
  const auto whole = answered("한국어 one", "one", 4);
  for (uint64_t i = 0; i < 3000; ++i) {
    auto stream = Stream(3, "accident").at(i);
    auto text = whole;
    const auto at = static_cast<size_t>(stream.below(std::ssize(text)));
    if (stream.below(2))
      text[at] = text[static_cast<size_t>(stream.below(std::ssize(text)))];
    else
      text.erase(at, static_cast<size_t>(1 + stream.below(6)));
    const auto message = refused(text, {.misplaced = Misplaced::repair});
    ASSERT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(QuestionsCollection, HasTheQuestionsOfKorquad) {
  LONGBOW_NEEDS(collected("korquad1_dev"));
  TextFile file(collected("korquad1_dev/KorQuAD_v1.0_dev.json.xz"));
  std::set<std::string> articles, contexts;
  const auto counts = read_questions(file, {}, [&](Record&& record) {
    articles.insert(record.group);
    contexts.insert(record.texts.at(1));
    for (const auto& answer : record.answers)
      EXPECT_EQ(record.texts[1].substr(static_cast<size_t>(answer.byte), answer.text.size()),
                answer.text);
    EXPECT_FALSE(record.answers.empty());
  });
  EXPECT_EQ(counts.records, 5774);
  EXPECT_EQ(articles.size(), 140u);
  EXPECT_EQ(contexts.size(), 960u) << "distinct ones with questions, of 964 paragraphs";
}

}  // namespace
}  // namespace longbow::corpus
