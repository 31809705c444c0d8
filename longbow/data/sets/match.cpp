#include "longbow/data/sets/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace longbow {
namespace {

constexpr int64_t kMostSymbols = 65536;

std::vector<int32_t> draw_sequence(const MatchConfig& config, int64_t topic, Stream& stream) {
  const auto length = drawn_length(config.length_min, config.length, stream);
  const auto topical = std::max(
      static_cast<int64_t>(std::ceil(config.purity * static_cast<double>(length))), length / 2 + 1);
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  const auto places = stream.permutation(length);
  for (int64_t i = 0; i < length; ++i) {
    const auto other = (topic + 1 + stream.below(config.topics - 1)) % config.topics;
    const auto word = stream.below(config.words);
    tokens[static_cast<size_t>(places[static_cast<size_t>(i)])] =
        static_cast<int32_t>(1 + (i < topical ? topic : other) * config.words + word);
  }
  return tokens;
}

int64_t topic_of(const std::vector<int32_t>& tokens, const MatchConfig& config,
                 const Place& place) {
  std::vector<int64_t> counts(static_cast<size_t>(config.topics));
  for (const auto token : tokens) ++counts[static_cast<size_t>((token - 1) / config.words)];
  const auto most = std::max_element(counts.begin(), counts.end());
  if (2 * *most <= std::ssize(tokens))
    throw UserError(place, "no topic has more than half of the tokens of a sequence");
  return most - counts.begin();
}

}  // namespace

Generator match_generator(const MatchConfig& config) {
  const auto vocabulary = 1 + config.topics * config.words;
  require_option(vocabulary <= kMostSymbols, "topics",
                 fmt::format("is {} and words is {}: {} symbols, but at most {} fit", config.topics,
                             config.words, vocabulary, kMostSymbols),
                 "lower topics or words");
  check_length_min(config.length_min, config.length);
  std::vector<std::string> symbols = {"<pad>"};
  for (int64_t t = 0; t < config.topics; ++t)
    for (int64_t w = 0; w < config.words; ++w) symbols.push_back(fmt::format("t{}w{}", t, w));
  return {.name = "match",
          .config = written(config),
          .train = config.train,
          .valid = config.valid,
          .test = config.test,
          .facts = {.vocabulary = vocabulary,
                    .classes = 2,
                    .symbols = symbols,
                    .labels = {"different", "same"}},
          .draw =
              [config](Stream stream) {
                const auto topic = stream.below(config.topics);
                const auto shift = stream.below(2) * (1 + stream.below(config.topics - 1));
                Sample sample;
                sample.tokens = draw_sequence(config, topic, stream);
                sample.second = draw_sequence(config, (topic + shift) % config.topics, stream);
                return sample;
              },
          .answer =
              [config](Sample& sample, const Place& place) {
                if (sample.second.empty()) throw UserError(place, "no second sequence");
                sample.targets = {topic_of(sample.tokens, config, place) ==
                                  topic_of(sample.second, config, place)};
              }};
}

DataSource match_data_set() {
  return generated_source<MatchConfig>(
      {.name = "match",
       .description = "pairs of sequences: do both have the same hidden topic?",
       .objective = "pairs",
       .recipe = {"{task: match, data: {match: {train: 8000, valid: 500, test: 1000}}, "
                  "model: {pairs: towers, features: [concat, product, difference]}}",
                  "100 % accuracy; guessing has 50 %"}},
      match_generator);
}

}  // namespace longbow
