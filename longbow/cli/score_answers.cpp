// `score answers`.
#include <fmt/format.h>

#include <unordered_map>

#include "longbow/cli/commands.h"
#include "longbow/cli/score.h"
#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/metrics/answers.h"

namespace longbow::cli {
namespace {

using metrics::AnswerRules;

const char* const kForm = "give a file of the form of SQuAD's";

struct Question {
  std::string id;
  std::vector<std::string> answers;
};

struct Questions {
  std::vector<Question> all;
  bool may_be_unanswerable = false;  // as in SQuAD 2.0
  std::string version;
};

const Node& member(const Node& node, const char* key) {
  if (const auto* found = node.find(key)) return *found;
  throw UserError(node.place, fmt::format("there is no {}", quote(key)), kForm);
}

const std::vector<Node>& items_of(const Node& node, const char* key) {
  const auto& list = member(node, key);
  if (!list.is_list())
    throw UserError(list.place, fmt::format("{} is not a list", quote(key)), kForm);
  return list.items;
}

Questions read_questions(const std::string& path) {
  const auto root = parse_json(read_file(path), path);
  Questions questions;
  if (const auto* version = root.find("version"))
    questions.version = as_string(*version, "version");
  for (const auto& article : items_of(root, "data"))
    for (const auto& paragraph : items_of(article, "paragraphs"))
      for (const auto& asked : items_of(paragraph, "qas")) {
        Question question{as_string(member(asked, "id"), "id"), {}};
        for (const auto& answer : items_of(asked, "answers"))
          question.answers.push_back(as_string(member(answer, "text"), "text"));
        questions.may_be_unanswerable |= asked.find("is_impossible") != nullptr;
        questions.all.push_back(std::move(question));
      }
  if (questions.all.empty()) throw UserError(Place{path, 0}, "has no questions", kForm);
  return questions;
}

using Predictions = std::unordered_map<std::string, std::string>;

Predictions read_predictions(const std::string& path) {
  const auto root = parse_json(read_file(path), path);
  if (!root.is_map())
    throw UserError(Place{path, 0}, "is not a map", "give {\"id\": \"answer\", …}");
  Predictions predictions;
  for (const auto& [id, text] : root.entries) predictions[id] = as_string(text, id);
  return predictions;
}

AnswerRules rules_of(const ScoreAnswersCommand& command, const Questions& questions) {
  if (command.korquad) return AnswerRules::korquad;
  if (questions.version.starts_with("KorQuAD"))
    warn(fmt::format("{}: is scored by SQuAD's rules; KorQuAD's are --korquad", command.data));
  return questions.may_be_unanswerable ? AnswerRules::squad2 : AnswerRules::squad1;
}

struct Totals {
  metrics::AnswerSums all, answerable, unanswerable;
};

// A question without a prediction scores 0, as in the scripts of SQuAD 1.1 and KorQuAD.
Totals score_all(const ScoreAnswersCommand& command, const Questions& questions,
                 const Predictions& predictions, AnswerRules rules) {
  Totals totals;
  size_t answered = 0;
  for (const auto& question : questions.all) {
    const auto found = predictions.find(question.id);
    metrics::AnswerScore score;
    if (found != predictions.end()) {
      score = score_answer(found->second, question.answers, rules);
      ++answered;
    }
    totals.all.add(score);
    (question.answers.empty() ? totals.unanswerable : totals.answerable).add(score);
  }
  if (answered == 0)
    throw UserError(Place{command.predictions, 0},
                    fmt::format("none of its ids is in {}", command.data),
                    "give the predictions for this data");
  if (answered < questions.all.size())
    warn(fmt::format("{}: {} of {} questions have no prediction and score 0", command.predictions,
                     questions.all.size() - answered, questions.all.size()));
  if (answered < predictions.size())
    warn(fmt::format("{}: {} of {} predictions are for none of the questions", command.predictions,
                     predictions.size() - answered, predictions.size()));
  return totals;
}

Node json_of(const metrics::AnswerSums& sums) {
  const auto mean = sums.mean();
  return Node::map({{"exact_match", number_or_null(100 * mean.exact)},
                    {"f1", number_or_null(100 * mean.f1)},
                    {"questions", Node::integer(sums.questions)}});
}

void print(const char* name, const metrics::AnswerSums& sums) {
  const auto mean = sums.mean();
  fmt::print("{:<13} exact match {:.2f}, F1 {:.2f} ({} questions)\n", name, 100 * mean.exact,
             100 * mean.f1, sums.questions);
}

}  // namespace

int run(const ScoreAnswersCommand& command) {
  const auto questions = read_questions(command.data);
  const auto predictions = read_predictions(command.predictions);
  const auto rules = rules_of(command, questions);
  const auto totals = score_all(command, questions, predictions, rules);
  const bool split = totals.unanswerable.questions > 0 && totals.answerable.questions > 0;
  if (command.json) {
    auto node = json_of(totals.all);
    node["rules"] = Node::string(name_of(rules));
    if (split) node["answerable"] = json_of(totals.answerable);
    if (split) node["unanswerable"] = json_of(totals.unanswerable);
    fmt::print("{}\n", to_json(node, 2));
    return 0;
  }
  print(name_of(rules).c_str(), totals.all);
  if (split) print("answerable", totals.answerable);
  if (split) print("unanswerable", totals.unanswerable);
  return 0;
}

}  // namespace longbow::cli
