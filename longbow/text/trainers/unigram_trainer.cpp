#include "longbow/text/trainers/unigram_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/core/on_all_cores.h"
#include "longbow/core/utf8.h"
#include "longbow/text/trainers/piece_trie.h"

namespace longbow {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr double kLeastExpected = 0.5;
constexpr double kLostCharacterStep = 0.0001;
constexpr uint32_t kUnknown = std::numeric_limits<uint32_t>::max();

double log_add(double a, double b) {
  const double low = std::min(a, b), high = std::max(a, b);
  return high > low + 50 ? high : high + std::log(std::exp(low - high) + 1);
}

// The derivative of log gamma: shifted up to 7 by its recurrence, then the asymptotic series.
double digamma(double x) {
  double shift = 0;
  for (; x < 7; ++x) shift -= 1 / x;
  x -= 0.5;
  const double x2 = 1 / (x * x), x4 = x2 * x2;
  return shift + std::log(x) + x2 / 24 - 7 * x4 / 960 + 31 * x4 * x2 / 8064 - 127 * x4 * x4 / 30720;
}

// The pieces that are left, by the number that they have as seeds: the trie over all seeds serves
// every round.
struct Model {
  std::vector<uint32_t> order;  // pieces as they stand at present
  std::vector<double> scores;   // by seed; NaN: dropped
  double unknown_score = 0;

  bool has(uint32_t seed) const { return !std::isnan(scores[seed]); }
  double least_score() const { return unknown_score + kUnknownPenalty; }
};

struct Arc {
  uint32_t begin, end;  // bytes of the word
  uint32_t piece;
  double score;
};

// The segmentations of one word. Kept from word to word for its memory.
class Lattice {
 public:
  void fill(std::string_view word, const PieceTrie& trie, const Model& model) {
    arcs_.clear();
    size_ = static_cast<uint32_t>(word.size());
    for (uint32_t at = 0; at < word.size();) {
      const auto bytes = static_cast<uint32_t>(utf8_at(word, at).bytes);
      bool has_character = false;
      trie.each_prefix(word.substr(at), [&](uint32_t piece, size_t length) {
        if (!model.has(piece)) return;
        arcs_.push_back({at, at + static_cast<uint32_t>(length), piece, model.scores[piece]});
        has_character = has_character || length == bytes;
      });
      if (!has_character) arcs_.push_back({at, at + bytes, kUnknown, model.unknown_score});
      at += bytes;
    }
  }

  // Adds what is expected of each piece over all segmentations, times `count`.
  void add_expected(double count, std::vector<double>& expected) {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    forward_.assign(size_ + 1, kNone);
    backward_.assign(size_ + 1, kNone);
    forward_[0] = backward_[size_] = 0;
    const auto add = [](double& sum, double value) {
      sum = std::isinf(sum) ? value : log_add(sum, value);
    };
    for (const auto& arc : arcs_) add(forward_[arc.end], forward_[arc.begin] + arc.score);
    for (auto arc = arcs_.rbegin(); arc != arcs_.rend(); ++arc)
      add(backward_[arc->begin], backward_[arc->end] + arc->score);
    for (const auto& arc : arcs_)
      if (arc.piece != kUnknown)
        expected[arc.piece] += count * std::exp(forward_[arc.begin] + arc.score +
                                                backward_[arc.end] - forward_[size_]);
  }

  // The best segmentation as arcs, the last first; of equals the one whose last piece is longest.
  // `whole` says whether the word itself may be a piece of it.
  const std::vector<const Arc*>& best(bool whole) {
    forward_.assign(size_ + 1, 0);
    last_.assign(size_ + 1, nullptr);
    for (const auto& arc : arcs_) {
      if (!whole && arc.begin == 0 && arc.end == size_) continue;
      const double score = forward_[arc.begin] + arc.score;
      if (last_[arc.end] && score <= forward_[arc.end]) continue;
      forward_[arc.end] = score;
      last_[arc.end] = &arc;
    }
    path_.clear();
    if (!last_[size_]) return path_;
    for (uint32_t at = size_; at > 0; at = last_[at]->begin) path_.push_back(last_[at]);
    return path_;
  }
  double best_score() const { return forward_[size_]; }  // of the last call of best()

 private:
  uint32_t size_ = 0;
  std::vector<Arc> arcs_;
  std::vector<double> forward_, backward_;
  std::vector<const Arc*> last_, path_;
};

class Trainer {
 public:
  Trainer(const std::vector<WordCount>& words, const UnigramTrainerOptions& options)
      : words_(words),
        options_(options),
        seeds_(unigram_seeds(words, options.max_piece_length, options.seed_size)),
        trie_(texts_of(seeds_)) {
    for (const auto& word : words) total_ += static_cast<double>(word.count);
    double sum = 0;
    for (const auto& seed : seeds_) sum += seed.score;
    model_.scores.resize(seeds_.size());
    for (uint32_t i = 0; i < seeds_.size(); ++i) {
      model_.order.push_back(i);
      model_.scores[i] = std::log(seeds_[i].score) - std::log(sum);
    }
    rate_unknown();
  }

  TrainedUnigram train(const TrainerProgress& progress) {
    const auto required = required_characters();
    // The pieces are counted together with the unknown one, here and in prune().
    const size_t wanted = static_cast<size_t>(options_.vocabulary) * 11 / 10;
    for (int64_t round = 0;; ++round) {
      for (int64_t i = 0; i < options_.sub_iterations; ++i) {
        if (progress) progress("rounds", round, round + rounds_left(wanted));
        maximise(expected_counts());
      }
      if (model_.order.size() + 1 <= wanted || !prune(wanted)) break;
    }
    return finished(required);
  }

 private:
  static std::vector<std::string_view> texts_of(const std::vector<ScoredPiece>& pieces) {
    std::vector<std::string_view> texts;
    for (const auto& piece : pieces) texts.push_back(piece.text);
    return texts;
  }

  int64_t rounds_left(size_t wanted) const {
    const double ratio = static_cast<double>(wanted) / static_cast<double>(model_.order.size() + 1);
    return ratio >= 1 ? 1
                      : 1 + static_cast<int64_t>(
                                std::ceil(std::log(ratio) / std::log(options_.shrinking_factor)));
  }

  void rate_unknown() {
    double least = std::numeric_limits<double>::infinity();
    for (const auto piece : model_.order) least = std::min(least, model_.scores[piece]);
    model_.unknown_score = least - kUnknownPenalty;
  }

  std::vector<std::string> required_characters() const {
    std::set<char32_t> codes(options_.initial_alphabet.begin(), options_.initial_alphabet.end());
    for (const auto& [word, count] : words_)
      for (size_t at = 0; at < word.size();) {
        const auto character = utf8_at(word, at);
        codes.insert(character.code);
        at += character.bytes;
      }
    if (static_cast<int64_t>(codes.size()) > options_.vocabulary)
      throw UserError(fmt::format("a vocabulary of {} cannot hold the {} characters of the texts",
                                  options_.vocabulary, codes.size()),
                      "ask for a larger vocabulary");
    std::vector<std::string> characters;
    for (const char32_t code : codes) append_utf8(characters.emplace_back(), code);
    return characters;
  }

  // Sums over a fixed number of parts, so that the threads do not change the rounding.
  template <class Visit>
  std::vector<double> sum_over_words(const Visit& visit) const {
    constexpr size_t kParts = 16;
    std::vector<std::vector<double>> sums(kParts);
    const auto sum_part = [&](int64_t index) {
      const auto part = static_cast<size_t>(index);
      auto& sum = sums[part];
      sum.assign(seeds_.size() + 1, 0);
      Lattice lattice;
      const size_t begin = words_.size() * part / kParts, end = words_.size() * (part + 1) / kParts;
      for (size_t i = begin; i < end; ++i) {
        lattice.fill(words_[i].word, trie_, model_);
        visit(lattice, static_cast<double>(words_[i].count), sum);
      }
    };
    on_all_cores(kParts, sum_part, options_.threads);
    for (size_t part = 1; part < kParts; ++part)
      for (size_t i = 0; i < sums[0].size(); ++i) sums[0][i] += sums[part][i];
    return std::move(sums[0]);
  }

  std::vector<double> expected_counts() const {
    return sum_over_words([](Lattice& lattice, double count, std::vector<double>& sum) {
      lattice.add_expected(count, sum);
    });
  }

  void maximise(const std::vector<double>& expected) {
    double sum = 0;
    for (const auto piece : model_.order)
      if (expected[piece] >= kLeastExpected) sum += expected[piece];
    const double log_sum = digamma(sum);
    std::vector<uint32_t> order;
    for (const auto piece : model_.order) {
      const bool stays = expected[piece] >= kLeastExpected;
      model_.scores[piece] =
          stays ? digamma(expected[piece]) - log_sum : std::numeric_limits<double>::quiet_NaN();
      if (stays) order.push_back(piece);
    }
    model_.order = std::move(order);
    rate_unknown();
  }

  // How often each piece is in the best segmentations; the unknown one last.
  std::vector<double> best_counts() const {
    const size_t unknown = seeds_.size();
    return sum_over_words([unknown](Lattice& lattice, double count, std::vector<double>& sum) {
      for (const auto* arc : lattice.best(true))
        sum[arc->piece == kUnknown ? unknown : arc->piece] += count;
    });
  }

  // What the likelihood loses when the best segmentations use `instead` in place of a piece.
  double loss(double used, const std::vector<const Arc*>& instead,
              const std::vector<double>& counts, double sum) const {
    const double log_sum = std::log(sum + used * (static_cast<double>(instead.size()) - 1));
    double other = 0;
    for (const auto* arc : instead)
      other +=
          std::log(counts[arc->piece == kUnknown ? seeds_.size() : arc->piece] + used) - log_sum;
    return used / total_ * (std::log(used) - std::log(sum) - other);
  }

  // False when every piece stays: characters are never dropped here.
  bool prune(size_t wanted) {
    const auto counts = best_counts();
    double sum = 0;
    for (const double count : counts) sum += count;
    const auto most =
        std::max(wanted, static_cast<size_t>(static_cast<double>(model_.order.size() + 1) *
                                             options_.shrinking_factor));
    std::vector<uint32_t> kept;
    std::vector<std::pair<double, uint32_t>> candidates;
    Lattice lattice;
    for (const auto piece : model_.order) {
      lattice.fill(seeds_[piece].text, trie_, model_);
      const auto& instead = lattice.best(false);
      if (instead.empty()) {  // a single character
        kept.push_back(piece);
        continue;
      }
      if (counts[piece] == 0) continue;
      if (lattice.best_score() > model_.scores[piece])
        kept.push_back(piece);
      else
        candidates.emplace_back(loss(counts[piece], instead, counts, sum), piece);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [rating, piece] : candidates) {
      if (kept.size() + 1 >= most) break;
      kept.push_back(piece);
    }
    if (kept.size() == model_.order.size()) return false;
    auto scores = std::vector<double>(seeds_.size(), std::numeric_limits<double>::quiet_NaN());
    for (const auto piece : kept) scores[piece] = model_.scores[piece];
    model_.scores = std::move(scores);
    model_.order = std::move(kept);
    rate_unknown();
    return true;
  }

  TrainedUnigram finished(const std::vector<std::string>& required) const {
    TrainedUnigram trained;
    std::vector<std::string> special = options_.special_tokens;
    if (!options_.unknown_token.empty()) {
      auto found = std::find(special.begin(), special.end(), options_.unknown_token);
      if (found == special.end()) found = special.insert(special.begin(), options_.unknown_token);
      trained.unknown_id = found - special.begin();
    }
    // Special tokens are found in a text before the model sees it: they need no pieces of their
    // own.
    const std::unordered_set<std::string_view> known(special.begin(), special.end());
    std::unordered_map<std::string_view, uint32_t> left;
    for (const auto piece : model_.order) left.emplace(seeds_[piece].text, piece);
    double lost = 0;
    auto& pieces = trained.pieces;
    for (const auto& character : required) {
      if (known.contains(character)) continue;
      const auto found = left.find(character);
      if (found != left.end()) {
        pieces.push_back({character, model_.scores[found->second]});
      } else {
        pieces.push_back({character, model_.least_score() + lost});
        lost += kLostCharacterStep;
      }
    }
    const std::unordered_set<std::string_view> characters(required.begin(), required.end());
    const auto room =
        std::max<int64_t>(options_.vocabulary - static_cast<int64_t>(special.size()), 0);
    for (const auto piece : model_.order) {
      if (static_cast<int64_t>(pieces.size()) >= room) break;
      const auto& text = seeds_[piece].text;
      if (!characters.contains(text) && !known.contains(text))
        pieces.push_back({text, model_.scores[piece]});
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const ScoredPiece& a, const ScoredPiece& b) { return a.score > b.score; });
    std::vector<ScoredPiece> first;
    for (const auto& token : special) first.push_back({token, 0});
    pieces.insert(pieces.begin(), first.begin(), first.end());
    return trained;
  }

  const std::vector<WordCount>& words_;
  const UnigramTrainerOptions& options_;
  std::vector<ScoredPiece> seeds_;
  PieceTrie trie_;
  double total_ = 0;
  Model model_;
};

}  // namespace

TrainedUnigram train_unigram(const std::vector<WordCount>& words,
                             const UnigramTrainerOptions& options,
                             const TrainerProgress& progress) {
  return Trainer(words, options).train(progress);
}

}  // namespace longbow
