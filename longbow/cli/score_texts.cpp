// `score bleu` and `score chrf`.
#include <fmt/format.h>

#include <optional>
#include <span>

#include "longbow/cli/commands.h"
#include "longbow/cli/score.h"
#include "longbow/core/log.h"
#include "longbow/metrics/bleu.h"
#include "longbow/metrics/chrf.h"
#include "longbow/metrics/significance.h"

namespace longbow::cli {
namespace {

using metrics::PairedTest;
using Lines = std::vector<std::string>;

struct Texts {
  Lines hypotheses, other;  // other: empty without --paired
  std::vector<Lines> references;
};

struct Compared {
  double score = 0, p_value = 0;
};

struct TextScores {
  double score = 0;
  std::vector<double> sentences{};
  std::optional<metrics::Interval> confidence{};
  std::optional<Compared> other{};
};

Texts read_texts(const ScoreTexts& command) {
  std::vector<std::string> paths = {command.hypotheses};
  paths.insert(paths.end(), command.references.begin(), command.references.end());
  if (!command.paired.empty()) paths.push_back(command.paired);
  auto files = read_aligned(paths);
  Texts texts{.hypotheses = std::move(files.front().lines), .other = {}, .references = {}};
  for (size_t i = 1; i <= command.references.size(); ++i)
    texts.references.push_back(std::move(files[i].lines));
  if (!command.paired.empty()) texts.other = std::move(files.back().lines);
  return texts;
}

metrics::Trials trials_of(const ScoreTexts& command) {
  return {.count = static_cast<size_t>(command.trials), .seed = command.seed};
}

std::string trials_signature(const ScoreTexts& command) {
  const auto trials = trials_of(command);
  const auto test = parse_choice<PairedTest>("--test", command.test);
  if (command.paired.empty())
    return command.confidence ? signature_of(PairedTest::bootstrap, trials) : "";
  const bool both = command.confidence && test == PairedTest::randomization;
  return (both ? fmt::format("bs:{}|", trials.count) : "") + signature_of(test, trials);
}

// `score` is the score of a sum of statistics, `sentence_score` that of a single sentence. `theirs`
// is empty without --paired.
template <class Statistics, class Score, class SentenceScore>
TextScores score_texts(const ScoreTexts& command, std::span<const Statistics> ours,
                       std::span<const Statistics> theirs, const Score& score,
                       const SentenceScore& sentence_score) {
  TextScores scores{.score = score(metrics::sum_of(ours))};
  if (command.sentences)
    for (const auto& sentence : ours) scores.sentences.push_back(sentence_score(sentence));
  const auto trials = trials_of(command);
  if (command.confidence)
    scores.confidence =
        metrics::confidence_interval(metrics::bootstrap_scores(ours, score, trials));
  if (theirs.empty()) return scores;
  const bool bootstrap = parse_choice<PairedTest>("--test", command.test) == PairedTest::bootstrap;
  scores.other = {.score = score(metrics::sum_of(theirs)),
                  .p_value = bootstrap
                                 ? metrics::paired_bootstrap(ours, theirs, score, trials)
                                 : metrics::paired_randomization(ours, theirs, score, trials)};
  return scores;
}

void add_tests(Node& node, const ScoreTexts& command, const TextScores& scores) {
  if (scores.confidence)
    node["confidence"] = Node::map({{"level", Node::number(0.95)},
                                    {"mean", number_or_null(scores.confidence->mean)},
                                    {"half_width", number_or_null(scores.confidence->half_width)}});
  if (scores.other)
    node["paired"] = Node::map({{"file", Node::string(command.paired)},
                                {"score", number_or_null(scores.other->score)},
                                {"difference", number_or_null(scores.score - scores.other->score)},
                                {"test", Node::string(command.test)},
                                {"p_value", number_or_null(scores.other->p_value)}});
  if (command.sentences) node["sentences"] = numbers(scores.sentences);
}

void print_tests(const ScoreTexts& command, const TextScores& scores) {
  if (scores.confidence)
    fmt::print("95 % confidence: {:.2f} ± {:.2f}\n", scores.confidence->mean,
               scores.confidence->half_width);
  if (scores.other)
    fmt::print("{}: {:.2f}, difference {:+.2f}, p = {:.4f} ({})\n", command.paired,
               scores.other->score, scores.score - scores.other->score, scores.other->p_value,
               command.test);
}

void print_sentences(const TextScores& scores) {
  for (const double score : scores.sentences) fmt::print("{:.2f}\n", score);
}

metrics::BleuOptions options_of(const ScoreBleuCommand& command) {
  return {.tokenizer = parse_choice<metrics::BleuTokenizer>("--tokenize", command.tokenize),
          .lowercase = command.texts.lowercase,
          .smoothing = parse_choice<metrics::BleuSmoothing>("--smooth", command.smooth),
          .smooth_value = command.smooth_value,
          .max_order = static_cast<size_t>(command.max_order),
          .effective_order = command.effective_order};
}

void warn_of_tokens(const ScoreBleuCommand& command, const Texts& texts) {
  if (command.tokenize == "none") return;
  for (size_t i = 0; i < texts.references.size(); ++i)
    if (metrics::look_tokenized(texts.references[i]))
      warn(fmt::format("{}: looks tokenized; scores are comparable on the original text only",
                       command.texts.references[i]));
}

Node json_of(const metrics::BleuScore& bleu, const std::string& signature) {
  Node counts = Node::list(), totals = Node::list();
  for (size_t n = 0; n < bleu.precisions.size(); ++n) {
    counts.items.push_back(Node::integer(bleu.statistics.matches[n]));
    totals.items.push_back(Node::integer(bleu.statistics.totals[n]));
  }
  return Node::map({{"name", Node::string("BLEU")},
                    {"score", number_or_null(bleu.score)},
                    {"counts", counts},
                    {"totals", totals},
                    {"precisions", numbers(bleu.precisions)},
                    {"brevity_penalty", number_or_null(bleu.brevity_penalty)},
                    {"hypothesis_length", Node::integer(bleu.statistics.hypothesis_length)},
                    {"reference_length", Node::integer(bleu.statistics.reference_length)},
                    {"signature", Node::string(signature)}});
}

}  // namespace

int run(const ScoreBleuCommand& command) {
  const auto options = options_of(command);
  const auto trials = trials_signature(command.texts);
  const auto texts = read_texts(command.texts);
  warn_of_tokens(command, texts);
  const auto ours = metrics::bleu_statistics(texts.hypotheses, texts.references, options);
  std::vector<metrics::BleuStatistics> theirs;
  if (!texts.other.empty())
    theirs = metrics::bleu_statistics(texts.other, texts.references, options);
  auto alone = options;
  alone.effective_order = true;
  const auto scores = score_texts<metrics::BleuStatistics>(
      command.texts, ours, theirs,
      [&](const auto& sum) { return metrics::bleu_of(sum, options).score; },
      [&](const auto& sentence) { return metrics::bleu_of(sentence, alone).score; });
  const auto bleu = metrics::bleu_of(metrics::sum_of<metrics::BleuStatistics>(ours), options);
  const auto signature = metrics::bleu_signature(options, texts.references.size(), trials);
  if (command.texts.json) {
    auto node = json_of(bleu, signature);
    add_tests(node, command.texts, scores);
    fmt::print("{}\n", to_json(node, 2));
    return 0;
  }
  print_sentences(scores);
  fmt::print("{}{}\n", signature, metrics::to_text(bleu).substr(4));  // after "BLEU"
  print_tests(command.texts, scores);
  return 0;
}

int run(const ScoreChrfCommand& command) {
  const metrics::ChrfOptions options = {.char_order = static_cast<size_t>(command.char_order),
                                        .word_order = static_cast<size_t>(command.word_order),
                                        .beta = command.beta,
                                        .lowercase = command.texts.lowercase,
                                        .whitespace = command.whitespace,
                                        .eps_smoothing = command.eps_smoothing};
  const auto trials = trials_signature(command.texts);
  const auto texts = read_texts(command.texts);
  const auto ours = metrics::chrf_statistics(texts.hypotheses, texts.references, options);
  std::vector<metrics::ChrfStatistics> theirs;
  if (!texts.other.empty())
    theirs = metrics::chrf_statistics(texts.other, texts.references, options);
  const auto score = [&](const auto& sum) { return metrics::chrf_of(sum, options); };
  const auto scores =
      score_texts<metrics::ChrfStatistics>(command.texts, ours, theirs, score, score);
  const auto signature = metrics::chrf_signature(options, texts.references.size(), trials);
  if (command.texts.json) {
    auto node = Node::map({{"name", Node::string(metrics::chrf_name(options))},
                           {"score", number_or_null(scores.score)},
                           {"signature", Node::string(signature)}});
    add_tests(node, command.texts, scores);
    fmt::print("{}\n", to_json(node, 2));
    return 0;
  }
  print_sentences(scores);
  fmt::print("{} = {:.2f}\n", signature, scores.score);
  print_tests(command.texts, scores);
  return 0;
}

}  // namespace longbow::cli
