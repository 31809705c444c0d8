#include "longbow/metrics/answers.h"

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

using Answers = std::vector<std::string>;

TEST(Answers, AreNormalizedByTheRulesOfSquad) {
  const auto cases = vectors("squad.json").at("normalised");
  ASSERT_FALSE(cases.empty());
  for (const auto& given : cases)
    for (const auto rules : {AnswerRules::squad1, AnswerRules::squad2})
      EXPECT_EQ(normalize_answer(given.at("text").get<std::string>(), rules),
                given.at("result").get<std::string>());
}

TEST(Answers, AreScoredByTheRulesOfSquad) {
  const auto all = vectors("squad.json");
  AnswerSums first, second;
  for (const auto& given : all.at("scores")) {
    SCOPED_TRACE(given.dump());
    const auto prediction = given.at("prediction").get<std::string>();
    const auto golds = given.at("golds").get<Answers>();
    const auto v1 = score_answer(prediction, golds, AnswerRules::squad1);
    const auto v2 = score_answer(prediction, golds, AnswerRules::squad2);
    expect_close(v1.exact, given.at("exact"));
    expect_close(v1.f1, given.at("f1_v1_1"));
    expect_close(v2.exact, given.at("exact"));
    expect_close(v2.f1, given.at("f1_v2_0"));
    first.add(v1);
    AnswerSums batch;
    batch.add(v2);
    second += batch;
  }
  expect_close(100 * first.mean().exact, all.at("total").at("exact"));
  expect_close(100 * first.mean().f1, all.at("total").at("f1_v1_1"));
  expect_close(100 * second.mean().f1, all.at("total").at("f1_v2_0"));
}

TEST(Answers, ToAQuestionWithoutAnswerAreEmpty) {
  EXPECT_EQ(score_answer("", Answers{}, AnswerRules::squad2).exact, 1);
  EXPECT_EQ(score_answer("", Answers{}, AnswerRules::squad2).f1, 1);
  EXPECT_EQ(score_answer("something", Answers{}, AnswerRules::squad2).f1, 0);
  EXPECT_EQ(score_answer("", Answers{"the", "cat"}, AnswerRules::squad2).exact, 0)
      << "a reference of an article alone is none where there is another";
}

TEST(Answers, OfKorQuadAreComparedByCharacters) {
  EXPECT_EQ(normalize_answer("《홍길동전》(1612년)", AnswerRules::korquad), "홍길동전 1612년");
  EXPECT_EQ(normalize_answer("‘a’ \"The\" <B>, c.d-e", AnswerRules::korquad), "a the b cde");
  const auto score =
      score_answer("서울 특별시", Answers{"서울", "서울특별시의"}, AnswerRules::korquad);
  EXPECT_EQ(score.exact, 0);
  EXPECT_NEAR(score.f1, 10.0 / 11, 1e-15) << "5 of 5 and of 6 characters";
  EXPECT_EQ(score_answer("〈서울〉", Answers{"서울"}, AnswerRules::korquad).exact, 1);
  EXPECT_EQ(score_answer("", Answers{""}, AnswerRules::korquad).f1, 0);
}

TEST(AnswerSums, OfNothingHaveNoMean) {
  EXPECT_TRUE(std::isnan(AnswerSums{}.mean().f1));
}

}  // namespace
}  // namespace longbow::metrics
