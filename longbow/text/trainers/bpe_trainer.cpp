#include "longbow/text/trainers/bpe_trainer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>

#include "longbow/core/utf8.h"

namespace longbow {
namespace {

struct Symbol {
  uint32_t id;
  uint32_t length;  // in characters
};

// A word is a range of one long array of symbols; merging makes it shorter in place.
struct Word {
  size_t begin = 0, end = 0;
};

struct Pair {
  uint32_t left = 0, right = 0;
  friend auto operator<=>(const Pair&, const Pair&) = default;
};
struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t key = (uint64_t{pair.left} << 32 | pair.right) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(key ^ key >> 32);
  }
};
template <class Value>
using PairMap = std::unordered_map<Pair, Value, PairHash>;

// A pair in the queue, with the words that it was seen in since it was last queued.
struct Candidate {
  int64_t count;
  Pair pair;
  size_t merges;  // made when it was queued; tells two entries of one pair apart
  std::vector<uint32_t> words;
  // The larger one leaves the queue first.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    if (a.count != b.count) return a.count < b.count;
    if (a.pair != b.pair) return a.pair > b.pair;
    return a.merges > b.merges;
  }
};

class TokenIds {
 public:
  uint32_t add(const std::string& token) {
    const auto [found, is_new] = ids_.emplace(token, static_cast<uint32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return found->second;
  }
  const uint32_t* find(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? nullptr : &found->second;
  }
  const std::string& operator[](uint32_t id) const { return tokens_[id]; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::vector<std::string> take() { return std::move(tokens_); }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
};

std::u32string alphabet_of(const std::vector<WordCount>& words, const BpeTrainerOptions& options) {
  std::unordered_map<char32_t, int64_t> counts;
  for (const auto& [word, count] : words)
    for (size_t at = 0; at < word.size();) {
      const auto character = utf8_at(word, at);
      counts[character.code] += count;
      at += character.bytes;
    }
  for (const char32_t code : options.initial_alphabet)
    counts[code] = std::numeric_limits<int64_t>::max();
  std::vector<std::pair<int64_t, char32_t>> by_count;
  for (const auto& [code, count] : counts) by_count.emplace_back(-count, code);
  std::sort(by_count.begin(), by_count.end());
  if (options.limit_alphabet && *options.limit_alphabet < static_cast<int64_t>(by_count.size()))
    by_count.resize(static_cast<size_t>(*options.limit_alphabet));
  std::u32string alphabet;
  for (const auto& entry : by_count) alphabet.push_back(entry.second);
  std::sort(alphabet.begin(), alphabet.end());
  return alphabet;
}

class Trainer {
 public:
  Trainer(const std::vector<WordCount>& words, const BpeTrainerOptions& options)
      : counted_(words), options_(options) {}

  TrainedBpe train(const TrainerProgress& progress) {
    for (const auto& token : options_.special_tokens) vocabulary_.add(token);
    for (const char32_t code : alphabet_of(counted_, options_)) {
      std::string token;
      append_utf8(token, code);
      vocabulary_.add(token);
    }
    add_affixed_symbols();
    split_words();
    count_pairs();
    while (vocabulary_.size() < options_.vocabulary && merge_next())
      if (progress && merges_.size() % 256 == 0)
        progress("merges", vocabulary_.size(), options_.vocabulary);
    return {vocabulary_.take(), std::move(merges_)};
  }

 private:
  // Calls take(form) for each character that the vocabulary has, with its prefix and suffix.
  template <class Take>
  void each_form(const std::string& word, const Take& take) const {
    std::string form;
    for (size_t at = 0; at < word.size();) {
      const auto bytes = utf8_at(word, at).bytes;
      form.assign(word, at, bytes);
      if (vocabulary_.find(form)) {
        if (at > 0) form.insert(0, options_.continuing_prefix);
        if (at + bytes == word.size()) form += options_.end_of_word_suffix;
        take(form);
      }
      at += bytes;
    }
  }

  void add_affixed_symbols() {
    if (options_.continuing_prefix.empty() && options_.end_of_word_suffix.empty()) return;
    std::set<std::string> forms;
    for (const auto& counted : counted_)
      each_form(counted.word, [&](const std::string& form) {
        if (!vocabulary_.find(form)) forms.insert(form);
      });
    for (const auto& symbol : options_.first_symbols)
      if (forms.erase(symbol) > 0) vocabulary_.add(symbol);
    for (const auto& form : forms) vocabulary_.add(form);
  }

  void split_words() {
    words_.reserve(counted_.size());
    for (const auto& counted : counted_) {
      const size_t begin = symbols_.size();
      each_form(counted.word, [&](const std::string& form) {
        symbols_.push_back({*vocabulary_.find(form), 1});
      });
      words_.push_back({begin, symbols_.size()});
    }
  }

  void count_pairs() {
    for (uint32_t i = 0; i < words_.size(); ++i)
      for (size_t at = words_[i].begin; at + 1 < words_[i].end; ++at)
        change({symbols_[at].id, symbols_[at + 1].id}, counted_[i].count, i);
    queue_seen();
  }

  // A pair that became more frequent was seen in this word, and is queued after the merge.
  void change(Pair pair, int64_t by, uint32_t word) {
    counts_[pair] += by;
    if (by <= 0) return;
    auto& words = seen_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void queue_seen() {
    for (auto& [pair, words] : seen_)
      if (const int64_t count = counts_[pair]; count > 0)
        push({count, pair, merges_.size(), std::move(words)});
    seen_.clear();
  }

  void push(Candidate candidate) {
    queue_.push_back(std::move(candidate));
    std::push_heap(queue_.begin(), queue_.end());
  }

  // False when no pair is left that is frequent enough.
  bool merge_next() {
    if (queue_.empty()) return false;
    std::pop_heap(queue_.begin(), queue_.end());
    Candidate top = std::move(queue_.back());
    queue_.pop_back();
    const int64_t count = counts_[top.pair];
    if (top.count != count) {  // other merges changed it since
      top.count = count;
      push(std::move(top));
      return true;
    }
    if (count < 1 || count < options_.min_frequency) return false;
    const auto merged = vocabulary_.add(joined(top.pair));
    merges_.emplace_back(top.pair.left, top.pair.right);
    for (const auto word : top.words) merge_in(word, top.pair, merged);
    queue_seen();
    return true;
  }

  std::string joined(Pair pair) const {
    std::string_view right = vocabulary_[pair.right];
    const auto& prefix = options_.continuing_prefix;
    if (right.starts_with(prefix)) right.remove_prefix(prefix.size());
    return vocabulary_[pair.left] + std::string(right);
  }

  void merge_in(uint32_t index, Pair pair, uint32_t merged) {
    auto& word = words_[index];
    const int64_t count = counted_[index].count;
    size_t write = word.begin;
    for (size_t at = word.begin; at < word.end; ++at, ++write) {
      const bool found =
          symbols_[at].id == pair.left && at + 1 < word.end && symbols_[at + 1].id == pair.right;
      if (!found) {
        symbols_[write] = symbols_[at];
        continue;
      }
      const Symbol symbol = {merged, symbols_[at].length + symbols_[at + 1].length};
      if (write > word.begin) {
        const auto& before = symbols_[write - 1];
        change({before.id, pair.left}, -count, index);
        if (may_join(before, symbol)) change({before.id, merged}, count, index);
      }
      symbols_[write] = symbol;
      ++at;
      if (at + 1 < word.end) {
        const auto& after = symbols_[at + 1];
        change({pair.right, after.id}, -count, index);
        if (may_join(after, symbol)) change({merged, after.id}, count, index);
      }
    }
    word.end = write;
  }

  bool may_join(const Symbol& a, const Symbol& b) const {
    return !options_.max_token_length ||
           int64_t{a.length} + int64_t{b.length} < *options_.max_token_length;
  }

  const std::vector<WordCount>& counted_;
  const BpeTrainerOptions& options_;
  TokenIds vocabulary_;
  std::vector<Symbol> symbols_;
  std::vector<Word> words_;
  PairMap<int64_t> counts_;
  PairMap<std::vector<uint32_t>> seen_;
  std::vector<Candidate> queue_;
  std::vector<std::pair<uint32_t, uint32_t>> merges_;
};

}  // namespace

TrainedBpe train_bpe(const std::vector<WordCount>& words, const BpeTrainerOptions& options,
                     const TrainerProgress& progress) {
  return Trainer(words, options).train(progress);
}

}  // namespace longbow
