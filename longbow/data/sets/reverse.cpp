#include "longbow/data/sets/reverse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "longbow/core/seed.h"
#include "longbow/core/work.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/readers/tsv.h"

namespace longbow {
namespace {

const SplitFiles kFiles{"reverse_train.tsv", "reverse_val.tsv", "reverse_test.tsv"};

void check(const ReverseConfig& config) {
  require_option(config.length_min <= config.length, "length_min",
                 fmt::format("is {}, above length, {}", config.length_min, config.length),
                 "lower it, or raise length");
}

Sample sample_of(std::vector<int32_t> source, const ReverseConfig& config, const Place& place) {
  auto target = reversed_target(source, config.symbols, place);
  return {.tokens = std::move(source), .second = std::move(target)};
}

Sample draw(const ReverseConfig& config, Stream stream) {
  const auto length = config.length_min + stream.below(config.length - config.length_min + 1);
  std::vector<int32_t> source;
  for (int64_t i = 0; i < length; ++i)
    source.push_back(static_cast<int32_t>(ReverseIds::source(stream.below(config.symbols))));
  return sample_of(std::move(source), config, {});
}

std::shared_ptr<const Dataset> make_split(const ReverseConfig& config, int64_t count,
                                          const Stream& stream) {
  std::vector<Sample> samples;
  Work work("making reverse", count);
  for (int64_t i = 0; i < count; ++i) {
    work.reached(i);
    samples.push_back(draw(config, stream.at(static_cast<uint64_t>(i))));
  }
  return std::make_shared<SampleList>(std::move(samples), /*per_token=*/false);
}

Splits describe_splits(const ReverseConfig& config) {
  Splits splits = {.vocabulary = ReverseIds::source(config.symbols),
                   .second_vocabulary = ReverseIds::target(config.symbols),
                   .begin = ReverseIds::kBegin,
                   .end = ReverseIds::kEnd};
  splits.symbols = {"<pad>"};
  splits.second_symbols = {"<pad>", "<begin>", "<end>"};
  for (auto* names : {&splits.symbols, &splits.second_symbols})
    for (int64_t s = 0; s < config.symbols; ++s) names->push_back(fmt::format("s{}", s));
  return splits;
}

std::string table_of(const Dataset& dataset) {
  std::string text = "Source\tTarget\n";
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto sample = dataset.get(i);
    text += fmt::format("{}\t{}\n", fmt::join(sample.tokens, " "), fmt::join(sample.second, " "));
  }
  return text;
}

std::shared_ptr<const Dataset> parse_split(const std::string& contents, const std::string& path,
                                           const ReverseConfig& config) {
  std::vector<Sample> samples;
  for (const auto& row : parse_table(contents, path)) {
    const Place place{path, row.line};
    auto sample = sample_of(parse_ids(row.source, place), config, place);
    if (sample.tokens.empty()) throw UserError(place, "the source is empty");
    if (parse_ids(row.target, place) != sample.second)
      throw UserError(place,
                      fmt::format("the target is {} but the reversed source is '{}'",
                                  excerpt(row.target), fmt::join(sample.second, " ")),
                      "the file was changed or cut");
    samples.push_back(std::move(sample));
  }
  return std::make_shared<SampleList>(std::move(samples), /*per_token=*/false);
}

}  // namespace

std::vector<int32_t> reversed_target(std::span<const int32_t> source, int64_t symbols,
                                     const Place& place) {
  std::vector<int32_t> target;
  for (size_t i = source.size(); i-- > 0;) {
    const auto symbol = source[i] - ReverseIds::source(0);
    if (symbol < 0 || symbol >= symbols)
      throw UserError(place, fmt::format("token {} (id {}) is not a symbol", i + 1, source[i]));
    target.push_back(static_cast<int32_t>(ReverseIds::target(symbol)));
  }
  target.push_back(static_cast<int32_t>(ReverseIds::kEnd));
  return target;
}

Splits make_reverse(const ReverseConfig& config, uint64_t seed) {
  check(config);
  auto splits = describe_splits(config);
  set_splits(splits, make_split(config, config.train, {seed, "reverse/train"}),
             make_split(config, config.valid, {seed, "reverse/valid"}),
             make_split(config, config.test, {seed, "reverse/test"}));
  return splits;
}

void write_reverse(const std::string& dir, const ReverseConfig& config, uint64_t seed) {
  write_splits({.dir = dir,
                .files = kFiles,
                .splits = make_reverse(config, seed),
                .table = table_of,
                .manifest = {.name = "reverse",
                             .seed = seed,
                             .version = kReverseVersion,
                             .config = written(config)}});
}

Splits load_reverse(const std::string& dir) {
  const auto manifest =
      needed_manifest(dir, kFiles, "it says what the ids in reverse_{train,val,test}.tsv mean");
  const auto config = read_options<ReverseConfig>(manifest.config, "config", check);
  auto splits = describe_splits(config);
  const auto parse = [&](const std::string& contents, const std::string& path) {
    return parse_split(contents, path, config);
  };
  read_splits({.dir = dir, .files = kFiles, .parse = parse, .manifest = manifest}, splits);
  return splits;
}

DataSource reverse_data_set() {
  return data_source<ReverseConfig>(
      {.name = "reverse",
       .description = "reversal: translate a source into its symbols from the end to the beginning",
       .objective = "translation",
       .files = {kFiles.train, kFiles.valid, kFiles.test},
       .recipe = {"{task: reverse, data: {reverse: {train: 8000, valid: 500, test: 500, "
                  "length: 12}}, train: {max_steps: 1000, learning_rate: 2e-3}}",
                  "a perplexity of 1.2 over 16 symbols"}},
      [](const DataConfig& config, const ReverseConfig& options) {
        auto splits =
            config.path.empty() ? make_reverse(options, config.seed) : load_reverse(config.path);
        refuse_cut(config, splits.max_length,
                   "a target begins with the end of its source; lower length instead");
        return splits;
      },
      write_reverse, check);
}

}  // namespace longbow
