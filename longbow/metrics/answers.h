#pragma once
// Answers to questions about a text, scored as the evaluation scripts of SQuAD and KorQuAD do.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace longbow::metrics {

enum class AnswerRules {
  squad1,   // SQuAD 1.1: F1 over words; an answer without words scores 0
  squad2,   // SQuAD 2.0: a question without reference answers is answered by ""
  korquad,  // KorQuAD 1.0: F1 over characters, articles stay
};
constexpr std::array<std::string_view, 3> names_of(AnswerRules) {
  return {"squad1", "squad2", "korquad"};
}

// What answers are compared as: in lower case, without punctuation, with single blanks. SQuAD's
// rules remove a, an and the; KorQuAD's first make blanks of quotes and brackets.
std::string normalize_answer(std::string_view text, AnswerRules rules);

struct AnswerScore {
  double exact = 0, f1 = 0;  // 0 to 1
};
// The best over the references, for each of both scores.
AnswerScore score_answer(std::string_view prediction, std::span<const std::string> references,
                         AnswerRules rules);

// Sums over questions; those of parts of the data are added.
struct AnswerSums {
  double exact = 0, f1 = 0;
  int64_t questions = 0;

  void add(const AnswerScore& score);
  AnswerSums& operator+=(const AnswerSums& other);
  AnswerScore mean() const;  // not a number without questions
};

}  // namespace longbow::metrics
