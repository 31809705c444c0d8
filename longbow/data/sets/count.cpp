#include "longbow/data/sets/count.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace longbow {
namespace {

constexpr int32_t kMarked = 1;

// Every number of marked tokens is equally likely.
std::vector<int32_t> draw_sequence(const CountConfig& config, Stream& stream) {
  const auto length = drawn_length(config.length_min, config.length, stream);
  const auto marked = stream.below(length + 1);
  std::vector<int32_t> tokens(static_cast<size_t>(length), kMarked);
  const auto places = stream.permutation(length);
  for (auto i = static_cast<size_t>(marked); i < tokens.size(); ++i)
    tokens[static_cast<size_t>(places[i])] =
        static_cast<int32_t>(kMarked + 1 + stream.below(config.words));
  return tokens;
}

double share_of(const std::vector<int32_t>& tokens) {
  return static_cast<double>(std::count(tokens.begin(), tokens.end(), kMarked)) /
         static_cast<double>(tokens.size());
}

}  // namespace

Generator count_generator(const CountConfig& config) {
  check_length_min(config.length_min, config.length);
  std::vector<std::string> symbols = {"<pad>", "#"};
  for (int64_t w = 0; w < config.words; ++w) symbols.push_back(fmt::format("w{}", w));
  return {.name = "count",
          .config = written(config),
          .train = config.train,
          .valid = config.valid,
          .test = config.test,
          .facts = {.vocabulary = kMarked + 1 + config.words, .symbols = symbols},
          .draw =
              [config](Stream stream) {
                Sample sample;
                sample.tokens = draw_sequence(config, stream);
                if (config.pairs) sample.second = draw_sequence(config, stream);
                return sample;
              },
          .answer =
              [config](Sample& sample, const Place& place) {
                if (sample.second.empty() == config.pairs)
                  throw UserError(place, config.pairs ? "no second sequence"
                                                      : "a second sequence, expected one");
                if (sample.tokens.empty()) throw UserError(place, "no tokens");
                const auto share = share_of(sample.tokens);
                const auto value =
                    config.pairs ? 1 - std::abs(share - share_of(sample.second)) : share;
                sample.values = {static_cast<float>(value)};
              }};
}

DataSource count_data_set() {
  return generated_source<CountConfig>(
      {.name = "count",
       .description = "the share of a marked token, or how alike two shares are",
       .objective = "regression",
       .recipe = {"{task: count, data: {count: {train: 8000, valid: 500, test: 1000}}}",
                  "a Pearson correlation of 0.999; a constant has 0"}},
      count_generator);
}

}  // namespace longbow
