#include "longbow/data/sets/markov.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "longbow/core/seed.h"
#include "longbow/core/work.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/readers/tsv.h"

namespace longbow {
namespace {

const SplitFiles kFiles{"markov_train.txt", "markov_val.txt", "markov_test.txt"};

void check(const MarkovConfig& config) {
  require_option(config.followers <= config.words, "followers",
                 fmt::format("is {}, but there are {} words", config.followers, config.words),
                 "raise words or lower followers");
  require_option(
      config.branches <= config.followers, "branches",
      fmt::format("is {}, but a word has {} followers", config.branches, config.followers),
      "raise followers or lower branches");
  require_option(
      config.length_min != 1 && config.length_min <= config.length, "length_min",
      fmt::format("is {}, not between 2 and length, {}", config.length_min, config.length),
      "0 makes all samples equally long");
}

// The one that a uniform number falls on.
size_t chosen(const std::vector<double>& cumulative, double u) {
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), u * cumulative.back());
  return std::min(static_cast<size_t>(found - cumulative.begin()), cumulative.size() - 1);
}

int64_t next_word(const std::vector<MarkovChain::Branch>& branches, double u) {
  for (const auto& branch : branches) {
    if (u < branch.probability) return branch.word;
    u -= branch.probability;
  }
  return branches.back().word;
}

std::vector<double> cumulated(const std::vector<double>& shares) {
  std::vector<double> sums;
  double sum = 0;
  for (const double share : shares) sums.push_back(sum += share);
  return sums;
}

// Targets are the next tokens, so that a sample can also be learnt as classification.
void add(MemoryDataset& dataset, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
  targets.push_back(kIgnore);
  dataset.add(tokens, targets);
}

std::shared_ptr<const MemoryDataset> make_split(const MarkovConfig& config,
                                                const MarkovChain& chain, int64_t count,
                                                const Stream& stream) {
  const auto start = cumulated(chain.stationary());
  auto dataset = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  const auto fewest = config.length_min > 0 ? config.length_min : config.length;
  Work work("making markov", count);
  for (int64_t i = 0; i < count; ++i) {
    work.reached(i);
    auto own = stream.at(static_cast<uint64_t>(i));
    const auto length = static_cast<size_t>(fewest + own.below(config.length - fewest + 1));
    const auto pair = static_cast<int64_t>(chosen(start, own.uniform()));
    int64_t before = pair / config.words, last = pair % config.words;
    std::vector<int32_t> tokens = {static_cast<int32_t>(1 + before),
                                   static_cast<int32_t>(1 + last)};
    while (tokens.size() < length) {
      const auto next = next_word(chain.branches(before, last), own.uniform());
      tokens.push_back(static_cast<int32_t>(1 + next));
      before = last;
      last = next;
    }
    add(*dataset, tokens);
  }
  return dataset;
}

Splits describe_splits(const MarkovConfig& config) {
  Splits splits = {.vocabulary = config.words + 1, .classes = config.words + 1};
  splits.symbols.emplace_back("<pad>");
  for (int64_t word = 0; word < config.words; ++word)
    splits.symbols.push_back(fmt::format("w{}", word));
  return splits;
}

std::string lines_of(const Dataset& dataset) {
  std::string text;
  for (int64_t i = 0; i < dataset.size(); ++i)
    text += fmt::format("{}\n", fmt::join(dataset.get(i).tokens, " "));
  return text;
}

std::vector<int32_t> parse_line(std::string_view line, const MarkovChain& chain,
                                const Place& place) {
  std::vector<int32_t> tokens;
  for (size_t at = 0; at <= line.size();) {
    const auto end = std::min(line.find(' ', at), line.size());
    const auto word = line.substr(at, end - at);
    int32_t id = 0;
    const auto [last, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (failure != std::errc() || last != word.data() + word.size() || id < 1 || id > chain.words())
      throw UserError(place, fmt::format("{} is not a word", excerpt(word)),
                      fmt::format("expected ids 1..{} with one blank between them", chain.words()));
    const auto seen = tokens.size();
    if (seen >= 2 && chain.probability(tokens[seen - 2] - 1, tokens[seen - 1] - 1, id - 1) == 0)
      throw UserError(place, fmt::format("word {} (id {}) cannot follow", seen + 1, id),
                      "the file was changed or cut");
    tokens.push_back(id);
    at = end + 1;
  }
  if (tokens.size() < 2) throw UserError(place, "fewer than two words");
  return tokens;
}

std::shared_ptr<const MemoryDataset> parse_split(const std::string& contents,
                                                 const std::string& path,
                                                 const MarkovChain& chain) {
  auto dataset = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  std::string_view rest = contents;
  for (int line = 1; !rest.empty(); ++line) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos)
      throw UserError(Place{path, line}, "no end of line", "the file seems cut off here");
    add(*dataset, parse_line(rest.substr(0, end), chain, {path, line}));
    rest.remove_prefix(end + 1);
  }
  if (dataset->size() == 0)
    throw UserError(Place{path}, "no samples", "the file seems cut off here");
  return dataset;
}

MarkovConfig config_of(const Manifest& manifest) {
  return read_options<MarkovConfig>(manifest.config, "config", check);
}

std::vector<Baseline> entropy_bounds(const DataConfig& config, const Splits& splits) {
  const auto manifest = config.path.empty() ? std::nullopt : find_manifest(config.path);
  const auto entropy =
      markov_entropy(manifest ? MarkovChain(config_of(*manifest), manifest->seed)
                              : MarkovChain(read<MarkovConfig>(config.options), config.seed));
  double nats = 0, words = 0;
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    const auto predicted = static_cast<double>(splits.test->length(i) - 1);
    nats += entropy.loss(splits.test->length(i)) * predicted;
    words += predicted;
  }
  return {{"last word only", "the entropy of the chain given the last word", "perplexity", false,
           std::exp(entropy.given_one)},
          {"entropy of the chain", "given all words before: no model is better", "perplexity",
           false, std::exp(nats / std::max(words, 1.0))}};
}

}  // namespace

MarkovChain::MarkovChain(const MarkovConfig& config, uint64_t seed) : words_(config.words) {
  check(config);
  const Stream words(seed, "markov/followers"), pairs(seed, "markov/branches");
  std::vector<std::vector<int64_t>> followers;  // of each word
  for (int64_t word = 0; word < words_; ++word) {
    followers.push_back(words.at(static_cast<uint64_t>(word)).permutation(words_));
    followers.back().resize(static_cast<size_t>(config.followers));
  }
  for (int64_t pair = 0; pair < words_ * words_; ++pair) {
    auto own = pairs.at(static_cast<uint64_t>(pair));
    const auto order = own.permutation(config.followers);
    auto& branches = branches_.emplace_back();
    double sum = 0;
    for (int64_t i = 0; i < config.branches; ++i) {
      const auto& last = followers[static_cast<size_t>(pair % words_)];
      const auto which = static_cast<size_t>(order[static_cast<size_t>(i)]);
      branches.push_back({last[which], 0.1 + own.uniform()});
      sum += branches.back().probability;
    }
    for (auto& branch : branches) branch.probability /= sum;
  }
}

double MarkovChain::probability(int64_t before, int64_t last, int64_t next) const {
  for (const auto& branch : branches(before, last))
    if (branch.word == next) return branch.probability;
  return 0;
}

std::vector<double> MarkovChain::stationary() const {
  const auto pairs = branches_.size();
  std::vector<double> now(pairs, 1 / static_cast<double>(pairs));
  // Half of each step stays where it is: then a chain that goes round in circles settles too.
  for (double change = 1; change > 1e-13;) {
    std::vector<double> next(pairs);
    for (size_t pair = 0; pair < pairs; ++pair) {
      next[pair] += now[pair] / 2;
      const auto last = static_cast<int64_t>(pair) % words_;
      for (const auto& branch : branches_[pair])
        next[static_cast<size_t>(last * words_ + branch.word)] +=
            now[pair] * branch.probability / 2;
    }
    change = 0;
    for (size_t pair = 0; pair < pairs; ++pair)
      change = std::max(change, std::abs(next[pair] - now[pair]));
    now = std::move(next);
  }
  return now;
}

double MarkovEntropy::loss(int64_t length) const {
  const auto predicted = static_cast<double>(length - 1);
  return predicted > 0 ? (given_one + (predicted - 1) * rate) / predicted : 0;
}

MarkovEntropy markov_entropy(const MarkovChain& chain) {
  const auto pairs = chain.stationary();
  const auto words = static_cast<size_t>(chain.words());
  const auto term = [](double p) { return p > 0 ? -p * std::log(p) : 0; };
  std::vector<double> single(words);
  MarkovEntropy entropy;
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    const auto before = pair / words, last = pair % words;
    single[before] += pairs[pair];
    for (const auto& branch :
         chain.branches(static_cast<int64_t>(before), static_cast<int64_t>(last)))
      entropy.rate += pairs[pair] * term(branch.probability);
  }
  for (const double share : pairs) entropy.given_one += term(share);
  for (const double share : single) entropy.given_one -= term(share);
  return entropy;
}

Splits make_markov(const MarkovConfig& config, uint64_t seed) {
  const MarkovChain chain(config, seed);
  auto splits = describe_splits(config);
  set_splits(splits, make_split(config, chain, config.train, {seed, "markov/train"}),
             make_split(config, chain, config.valid, {seed, "markov/valid"}),
             make_split(config, chain, config.test, {seed, "markov/test"}));
  return splits;
}

void write_markov(const std::string& dir, const MarkovConfig& config, uint64_t seed) {
  write_splits(
      {.dir = dir,
       .files = kFiles,
       .splits = make_markov(config, seed),
       .table = lines_of,
       .manifest = {
           .name = "markov", .seed = seed, .version = kMarkovVersion, .config = written(config)}});
}

Splits load_markov(const std::string& dir) {
  const auto manifest =
      needed_manifest(dir, kFiles, "it says what chain markov_{train,val,test}.txt come from");
  const auto config = config_of(manifest);
  const MarkovChain chain(config, manifest.seed);
  auto splits = describe_splits(config);
  auto parse = [&](const std::string& contents, const std::string& path) {
    return parse_split(contents, path, chain);
  };
  read_splits({.dir = dir, .files = kFiles, .parse = parse, .manifest = manifest}, splits);
  return splits;
}

DataSource markov_data_set() {
  return data_source<MarkovConfig>(
      {.name = "markov",
       .description = "words of a random Markov chain of order two, whose entropy is known",
       .objective = "causal_lm",
       .files = {kFiles.train, kFiles.valid, kFiles.test},
       .recipe = {"{task: markov, data: {markov: {train: 8000, valid: 500, test: 500, words: 16, "
                  "length: 48}}, train: {learning_rate: 3e-3}}",
                  "a perplexity of 3.1 over 16 words"},
       .baselines = entropy_bounds},
      [](const DataConfig& config, const MarkovConfig& options) {
        return truncate(
            config.path.empty() ? make_markov(options, config.seed) : load_markov(config.path),
            config.max_tokens);
      },
      write_markov, check);
}

}  // namespace longbow
