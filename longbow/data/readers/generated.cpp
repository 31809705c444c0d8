#include "longbow/data/readers/generated.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "longbow/core/work.h"
#include "longbow/data/readers/tsv.h"

namespace longbow {
namespace {

constexpr std::string_view kBetween = " | ";

std::string answer_text(const Sample& sample) {
  return sample.values.empty() ? fmt::format("{}", fmt::join(sample.targets, " "))
                               : fmt::format("{}", fmt::join(sample.values, " "));
}

std::shared_ptr<const Dataset> draw_split(const Generator& generator, int64_t count,
                                          const Stream& stream) {
  std::vector<Sample> samples;
  Work work("making " + generator.name, count);
  for (int64_t i = 0; i < count; ++i) {
    work.reached(i);
    samples.push_back(generator.draw(stream.at(static_cast<uint64_t>(i))));
    generator.answer(samples.back(), {});
  }
  return std::make_shared<SampleList>(std::move(samples), /*per_token=*/false);
}

std::string table_of(const Dataset& dataset) {
  std::string text = "Source\tTarget\n";
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto sample = dataset.get(i);
    text += fmt::format("{}", fmt::join(sample.tokens, " "));
    if (dataset.has_second()) text += fmt::format("{}{}", kBetween, fmt::join(sample.second, " "));
    text += fmt::format("\t{}\n", answer_text(sample));
  }
  return text;
}

Sample parse_sample(const TsvRow& row, const Generator& generator, const Place& place) {
  Sample sample;
  const auto between = row.source.find(kBetween);
  sample.tokens = parse_ids(row.source.substr(0, between), place);
  if (between != std::string_view::npos)
    sample.second = parse_ids(row.source.substr(between + kBetween.size()), place);
  for (const auto* list : {&sample.tokens, &sample.second})
    for (const auto id : *list)
      if (id < 1 || id >= generator.facts.vocabulary)
        throw UserError(place, fmt::format("id {} is out of range", id),
                        fmt::format("it may be 1..{}", generator.facts.vocabulary - 1));
  generator.answer(sample, place);
  if (const auto expected = answer_text(sample); row.target != expected)
    throw UserError(
        place, fmt::format("answers {} but the tokens say '{}'", excerpt(row.target), expected),
        "the file was changed or cut");
  return sample;
}

}  // namespace

SplitFiles files_of(const std::string& name) {
  return {name + "_train.tsv", name + "_val.tsv", name + "_test.tsv"};
}

Splits generate(const Generator& generator, uint64_t seed) {
  auto splits = generator.facts;
  const auto split = [&](int64_t count, const char* part) {
    return draw_split(generator, count, Stream(seed, generator.name + part));
  };
  set_splits(splits, split(generator.train, "/train"), split(generator.valid, "/valid"),
             split(generator.test, "/test"));
  return splits;
}

void write_generated(const Generator& generator, const std::string& dir, uint64_t seed) {
  write_splits({.dir = dir,
                .files = files_of(generator.name),
                .splits = generate(generator, seed),
                .table = table_of,
                .manifest = {.name = generator.name,
                             .seed = seed,
                             .version = generator.version,
                             .config = generator.config}});
}

Splits load_generated(const std::string& dir, const std::string& name,
                      const std::function<Generator(const Node& config)>& make) {
  const auto manifest =
      needed_manifest(dir, files_of(name),
                      fmt::format("it says what the ids in {}_{{train,val,test}}.tsv mean", name));
  const auto generator = make(manifest.config);
  auto splits = generator.facts;
  const auto parse = [&](const std::string& contents, const std::string& path) {
    std::vector<Sample> samples;
    for (const auto& row : parse_table(contents, path))
      samples.push_back(parse_sample(row, generator, {path, row.line}));
    return std::make_shared<SampleList>(std::move(samples), /*per_token=*/false);
  };
  read_splits({.dir = dir, .files = files_of(name), .parse = parse, .manifest = manifest}, splits);
  return splits;
}

void check_length_min(int64_t least, int64_t most) {
  require_option(least <= most, "length_min", fmt::format("is {}, above length, {}", least, most),
                 "lower it, or raise length");
}

int64_t drawn_length(int64_t least, int64_t most, Stream& stream) {
  if (least == 0) return most;
  return least + stream.below(most - least + 1);
}

}  // namespace longbow
