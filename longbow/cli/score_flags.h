#pragma once
// The flags of `score`; only main.cpp includes this.
#include <string>
#include <vector>

#include "longbow/cli/flags.h"
#include "longbow/metrics/bleu.h"
#include "longbow/metrics/chrf.h"

namespace longbow::cli {

inline void add_texts(CLI::App* sub, ScoreTexts& texts) {
  sub->add_option("--hypotheses", texts.hypotheses, "texts to score, one a line; - is stdin")
      ->required();
  sub->add_option("--references", texts.references,
                  "one file, or several with further references of the same lines")
      ->required();
  sub->add_flag("--lowercase", texts.lowercase, "ignore case");
  sub->add_flag("--sentences", texts.sentences, "print the score of each line as well");
  sub->add_flag("--confidence", texts.confidence, "95 % confidence interval by bootstrap");
  sub->add_option("--paired", texts.paired,
                  "other hypotheses; test whether the difference is significant");
  sub->add_option("--test", texts.test, "for --paired: bootstrap or randomization")
      ->capture_default_str();
  sub->add_option("--trials", texts.trials, "samples of --confidence and --paired")
      ->check(between(2, 1'000'000))
      ->capture_default_str();
  sub->add_option("--seed", texts.seed, "seed of these samples")
      ->check(at_least(0))
      ->capture_default_str();
  sub->add_flag("--json", texts.json, "as JSON");
}

inline void declare_score_texts(CLI::App& score, Action& action) {
  static ScoreBleuCommand bleu;
  auto* sub = declare(score, action, "bleu", "BLEU, with sacreBLEU's rules and signature", bleu);
  add_texts(sub, bleu.texts);
  sub->add_option("--tokenize", bleu.tokenize, "13a, intl, char, zh or none")
      ->capture_default_str();
  sub->add_option("--smooth", bleu.smooth, "exp, floor, add-k or none")->capture_default_str();
  sub->add_option("--smooth-value", bleu.smooth_value, "of floor [default 0.1] and add-k [1]")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--max-order", bleu.max_order, "longest n-grams")
      ->check(between(1, metrics::kMostBleuOrder))
      ->capture_default_str();
  sub->add_flag("--effective-order", bleu.effective_order,
                "leave out orders without n-grams; --sentences always does");
  add_examples(sub, {"score bleu --hypotheses out.de --references test.de",
                     "score bleu --hypotheses out.de --references test.de --paired base.de --json",
                     "score bleu --hypotheses - --references a.zh b.zh --tokenize zh"});

  static ScoreChrfCommand chrf;
  sub = declare(score, action, "chrf", "chrF; with --word-order 2, chrF++", chrf);
  add_texts(sub, chrf.texts);
  const auto most = static_cast<int64_t>(metrics::kMostChrfOrders);
  sub->add_option("--char-order", chrf.char_order, "longest n-grams of characters")
      ->check(between(1, most - 4))
      ->capture_default_str();
  sub->add_option("--word-order", chrf.word_order, "longest n-grams of words; 0 = none")
      ->check(between(0, 4))
      ->capture_default_str();
  sub->add_option("--beta", chrf.beta, "recall counts so many times as much as precision")
      ->check(between(1, 100))
      ->capture_default_str();
  sub->add_flag("--whitespace", chrf.whitespace, "keep white space in n-grams of characters");
  sub->add_flag("--eps-smoothing", chrf.eps_smoothing,
                "average F over all orders, as chrF++.py does");
  add_examples(sub, {"score chrf --hypotheses out.de --references test.de --word-order 2"});
}

template <class Command>
void add_aligned(CLI::App* sub, Command& command, const char* what) {
  sub->add_option("--predictions", command.predictions,
                  std::string("one ") + what + " a line; - is stdin")
      ->required();
  sub->add_option("--references", command.references, std::string("the true ") + what + "s")
      ->required();
  sub->add_flag("--json", command.json, "as JSON");
}

inline void declare_score(CLI::App& app, Action& action) {
  auto* score = app.add_subcommand("score", "Score predictions in files against references");
  score->require_subcommand(1);
  add_examples(score, {"score bleu --hypotheses out.de --references test.de",
                       "score classification --predictions out.txt --references labels.txt"});
  declare_score_texts(*score, action);

  static ScoreClassificationCommand classification;
  auto* sub = declare(*score, action, "classification",
                      "Accuracy, F1, Matthews, kappa and the confusion matrix", classification);
  add_aligned(sub, classification, "label");
  sub->add_option("--labels", classification.labels,
                  "only these labels in averages, separated by commas [default all]")
      ->delimiter(',');
  sub->add_option("--zero-division", classification.zero_division,
                  "what a precision, recall or F1 without samples counts as")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  add_examples(sub, {"score classification --predictions out.txt --references labels.txt"});

  static ScoreRegressionCommand regression;
  sub = declare(*score, action, "regression", "Pearson, Spearman, Kendall and errors", regression);
  add_aligned(sub, regression, "number");
  sub->add_option("--threshold", regression.threshold,
                  "also F1 of the numbers that are at least this");
  add_examples(sub, {"score regression --predictions out.txt --references sts.txt --threshold 3"});

  static ScoreAnswersCommand answers;
  sub = declare(*score, action, "answers",
                "Exact match and F1 of answers to questions, as SQuAD and KorQuAD score them",
                answers);
  sub->add_option("--predictions", answers.predictions, "JSON file, {\"id\": \"answer\", …}")
      ->required();
  sub->add_option("--data", answers.data, "questions and answers in the form of SQuAD's JSON")
      ->required();
  sub->add_flag("--korquad", answers.korquad, "KorQuAD 1.0's rules: F1 over characters");
  sub->add_flag("--json", answers.json, "as JSON");
  add_examples(sub, {"score answers --predictions out.json --data dev-v2.0.json"});
}

}  // namespace longbow::cli
