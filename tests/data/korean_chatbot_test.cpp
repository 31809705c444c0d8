#include <gtest/gtest.h>

#include <set>

#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

std::string questions(int count) {
  std::string text = "Q,A,label\n";
  for (int i = 0; i < count; ++i)
    text += "질문 " + std::to_string(i) + ",\"네, 답\"," + (i ? "1" : "2    ") + "\n";
  return text;
}

TEST(KoreanChatbot, AnswersQuestions) {
  const Folder folder;
  folder.write("ChatbotData.csv", questions(200));
  const auto splits = load_published({.set = "korean_chatbot", .path = folder.str()});
  EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 200);
  EXPECT_GT(splits.valid->size(), 0);
  EXPECT_GT(splits.test->size(), 0);
  EXPECT_EQ(text_of(splits.train->get(0).second), "네, 답");
  EXPECT_EQ(splits.train->get(0).second.back(), splits.end);
  EXPECT_EQ(find_data_source("korean_chatbot").objective_for(Node::map()), "translation");
}

TEST(KoreanChatbot, TellsWhatAQuestionIsAboutDespiteBlanksBehindALabel) {
  const Folder folder;
  folder.write("ChatbotData .csv", questions(200));
  const std::string options = "{use: classes}";
  const auto splits =
      load_published({.set = "korean_chatbot", .path = folder.str(), .options = options});
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"everyday", "parting", "love"}));
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid) +
                classes_in(splits, *splits.test),
            (Counts{{"love", 1}, {"parting", 199}}));
  EXPECT_EQ(find_data_source("korean_chatbot").objective_for(parse_yaml(options, "run.yaml")),
            "classification");
}

TEST(KoreanChatbot, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "korean_chatbot"),
            "ChatbotData.csv: no such file, nor ChatbotData .csv; `longbow data list "
            "korean_chatbot` tells which files belong into data.path");
}

TEST(KoreanChatbot, HasThePublishedRows) {
  const auto path = collected("korean_chatbot");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto classes =
      load_published({.set = "korean_chatbot", .path = path.string(), .options = "{use: classes}"});
  EXPECT_EQ(classes_in(classes, *classes.train) + classes_in(classes, *classes.valid) +
                classes_in(classes, *classes.test),
            (Counts{{"everyday", 5290}, {"parting", 3570}, {"love", 2963}}));
  const auto answers = load_published({.set = "korean_chatbot", .path = path.string()});
  std::set<std::string> trained;
  for (int64_t i = 0; i < answers.train->size(); ++i)
    trained.insert(text_of(answers.train->get(i).tokens));
  for (int64_t i = 0; i < answers.test->size(); ++i)
    EXPECT_EQ(trained.count(text_of(answers.test->get(i).tokens)), 0u);
  EXPECT_EQ(answers.train->size() + answers.valid->size() + answers.test->size(), 11823);
}

}  // namespace
}  // namespace longbow
