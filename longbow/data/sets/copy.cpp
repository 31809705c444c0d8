#include "longbow/data/sets/copy.h"

#include <fmt/format.h>

#include <algorithm>

namespace longbow {
namespace {

std::vector<int32_t> draw_source(const CopyConfig& config, Stream stream) {
  const auto length = drawn_length(config.length_min, config.length, stream);
  std::vector<int32_t> source;
  for (int64_t i = 0; i + 1 < length; ++i)
    source.push_back(static_cast<int32_t>(CopyIds::kFirst + stream.below(config.symbols)));
  source.push_back(CopyIds::kEnd);
  return source;
}

void check_source(const std::vector<int32_t>& source, const Place& place) {
  const auto is_symbol = [](int32_t id) { return id >= CopyIds::kFirst; };
  if (source.size() < 2 || source.back() != CopyIds::kEnd ||
      !std::all_of(source.begin(), source.end() - 1, is_symbol))
    throw UserError(
        place, "the source is not some symbols and an end",
        fmt::format("symbols have ids from {} on, the end has {}", CopyIds::kFirst, CopyIds::kEnd));
}

}  // namespace

Generator copy_generator(const CopyConfig& config) {
  require_option(config.length_min != 1, "length_min",
                 "is 1, which leaves no room for a symbol and the end",
                 "set it to 0 or at least 2");
  check_length_min(config.length_min, config.length);
  std::vector<std::string> symbols = {"<pad>", "<begin>", "<end>"};
  for (int64_t s = 0; s < config.symbols; ++s) symbols.push_back(fmt::format("s{}", s));
  return {.name = "copy",
          .config = written(config),
          .train = config.train,
          .valid = config.valid,
          .test = config.test,
          .facts = {.vocabulary = CopyIds::kFirst + config.symbols,
                    .begin = CopyIds::kBegin,
                    .end = CopyIds::kEnd,
                    .symbols = symbols},
          .draw =
              [config](Stream stream) {
                auto source = draw_source(config, stream);
                return Sample{.tokens = source, .second = source};
              },
          .answer =
              [](Sample& sample, const Place& place) {
                check_source(sample.tokens, place);
                if (sample.second != sample.tokens)
                  throw UserError(place, "the target is not the source",
                                  "the file was changed or cut");
              }};
}

DataSource copy_data_set() {
  return generated_source<CopyConfig>(
      {.name = "copy",
       .description = "copying: translate a source into itself",
       .objective = "translation",
       .recipe = {"{task: copy, data: {copy: {train: 8000, valid: 500, test: 500}}, model: "
                  "{attention: softmax}, train: {max_steps: 300, learning_rate: 3e-3}}",
                  "a perplexity of 1.25 over 64 symbols"}},
      copy_generator);
}

}  // namespace longbow
