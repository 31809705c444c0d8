#include "longbow/data/sets/needle.h"

#include <fmt/format.h>

#include <algorithm>

namespace longbow {
namespace {

constexpr int32_t kMarker = 1;

int32_t first_answer(const NeedleConfig& config) {
  return static_cast<int32_t>(kMarker + 1 + config.words);
}

std::vector<int32_t> draw_tokens(const NeedleConfig& config, Stream stream) {
  const auto length = drawn_length(config.length_min, config.length, stream);
  const auto span = 1 + stream.below(config.width);
  const auto marker = stream.below(length - span);
  const auto word = [&] { return kMarker + 1 + stream.below(config.words); };
  const auto answer = [&] { return first_answer(config) + stream.below(config.answers); };
  std::vector<int32_t> tokens;
  for (int64_t at = 0; at < length; ++at) {
    const bool noisy = stream.uniform() < config.noise;
    int64_t token = noisy ? answer() : word();
    if (at == marker) token = kMarker;
    if (at > marker && at <= marker + span) token = answer();
    if (at == marker + span + 1) token = word();  // so that the span ends
    tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

}  // namespace

Generator needle_generator(const NeedleConfig& config) {
  const auto least = config.length_min > 0 ? config.length_min : config.length;
  check_length_min(config.length_min, config.length);
  require_option(
      config.width < least, "width",
      fmt::format("is {}, but a marker and so many tokens do not fit into {}", config.width, least),
      "raise the length or lower width");
  std::vector<std::string> symbols = {"<pad>", ">"};
  for (int64_t w = 0; w < config.words; ++w) symbols.push_back(fmt::format("w{}", w));
  for (int64_t a = 0; a < config.answers; ++a) symbols.push_back(fmt::format("a{}", a));
  return {.name = "needle",
          .config = written(config),
          .train = config.train,
          .valid = config.valid,
          .test = config.test,
          .facts = {.vocabulary = first_answer(config) + config.answers, .symbols = symbols},
          .draw =
              [config](Stream stream) {
                Sample sample;
                sample.tokens = draw_tokens(config, stream);
                return sample;
              },
          .answer =
              [answers = first_answer(config)](Sample& sample, const Place& place) {
                const auto& tokens = sample.tokens;
                if (!sample.second.empty())
                  throw UserError(place, "a second sequence, expected one");
                if (std::count(tokens.begin(), tokens.end(), kMarker) != 1)
                  throw UserError(place, "a sample needs exactly one marker");
                const auto start = std::find(tokens.begin(), tokens.end(), kMarker) + 1;
                const auto end =
                    std::find_if(start, tokens.end(), [&](int32_t id) { return id < answers; });
                if (start == end) throw UserError(place, "no answer word follows the marker");
                sample.targets = {static_cast<int32_t>(start - tokens.begin()),
                                  static_cast<int32_t>(end - tokens.begin() - 1)};
              }};
}

DataSource needle_data_set() {
  return generated_source<NeedleConfig>(
      {.name = "needle",
       .description = "the span of answer words that follows a marker",
       .objective = "span",
       .recipe = {"{task: needle, data: {needle: {train: 8000, valid: 500, test: 1000}}, "
                  "model: {attention: softmax, max_span: 8}, train: {learning_rate: 2e-3}}",
                  "99 % of the spans exactly"}},
      needle_generator);
}

}  // namespace longbow
