// `score answers`.
#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "longbow/cli/commands.h"
#include "longbow/cli/score.h"
#include "longbow/core/log.h"
#include "longbow/corpus/readers/json_stream.h"
#include "longbow/metrics/answers.h"

namespace longbow::cli {
namespace {

using metrics::AnswerRules;

const char* const kForm = "give a file of the form of SQuAD's";
constexpr corpus::TextOptions kPlain = {.is_in_config = false};

struct Question {
  std::string id;
  std::vector<std::string> answers;
};

struct Questions {
  std::vector<Question> all;
  bool may_be_unanswerable = false;  // as in SQuAD 2.0
  std::string version;
};

// Reads the form of SQuAD's files from front to back: those for training have more values than a
// tree should hold.
class QuestionReader {
 public:
  explicit QuestionReader(const std::string& path) : file_(path, kPlain), json_(file_) {}

  Questions read() {
    object({"data"}, [&](const std::string& key) {
      if (key == "version") return scalar(key, questions_.version);
      return key == "data" && list(key, [&] { article(); });
    });
    json_.finish();
    if (questions_.all.empty()) throw UserError(Place{file_.name(), 0}, "has no questions", kForm);
    return std::move(questions_);
  }

 private:
  using Kind = corpus::JsonStream::Kind;

  // Reads what comes next by take(key), which says whether it has read the value. All of `needed`
  // must be there.
  template <class Take>
  void object(std::vector<std::string> needed, const Take& take) {
    if (json_.kind() != Kind::object) fail("an object is expected");
    const auto place = json_.place();
    std::string key;
    for (json_.open_object(); json_.key(key);) {
      if (take(key))
        std::erase(needed, key);
      else
        json_.skip();
    }
    if (!needed.empty())
      throw UserError(place, fmt::format("there is no {}", quote(needed.front())), kForm);
  }
  template <class Take>
  bool list(const std::string& key, const Take& take_item) {
    if (json_.kind() != Kind::array) fail(quote(key) + " is not a list");
    for (json_.open_array(); json_.item();) take_item();
    return true;
  }
  // A text, or a number as it is written.
  bool scalar(const std::string& key, std::string& text) {
    if (json_.kind() == Kind::string)
      json_.string(text);
    else if (json_.kind() == Kind::number)
      json_.word(text);
    else
      fail(quote(key) + " is not a string");
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(json_.place(), what, kForm);
  }

  void article() {
    object({"paragraphs"}, [&](const std::string& key) {
      return key == "paragraphs" && list(key, [&] { paragraph(); });
    });
  }
  void paragraph() {
    object({"qas"},
           [&](const std::string& key) { return key == "qas" && list(key, [&] { question(); }); });
  }
  void question() {
    auto& question = questions_.all.emplace_back();
    object({"id", "answers"}, [&](const std::string& key) {
      if (key == "is_impossible") questions_.may_be_unanswerable = true;
      if (key == "id") return scalar(key, question.id);
      return key == "answers" && list(key, [&] { answer(question.answers.emplace_back()); });
    });
  }
  void answer(std::string& text) {
    object({"text"}, [&](const std::string& key) { return key == "text" && scalar(key, text); });
  }

  corpus::TextFile file_;
  corpus::JsonStream json_;
  Questions questions_;
};

using Predictions = std::unordered_map<std::string, std::string>;

Predictions read_predictions(const std::string& path) {
  const auto root = parse_json(corpus::TextFile(path, kPlain).read_all(), path);
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
  const auto questions = QuestionReader(command.data).read();
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
