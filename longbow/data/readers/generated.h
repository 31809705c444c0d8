#pragma once
// Data sets that are drawn sample by sample and whose answers follow from the tokens, in memory or
// as `NAME_{train,val,test}.tsv` with a manifest: ids of the sample (the sequences of a pair with
// " | " between them), then its answers.
#include <functional>

#include "longbow/core/seed.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

struct Generator {
  std::string name = {};
  int64_t version = 1;
  Node config = {};
  int64_t train = 0, valid = 0, test = 0;
  Splits facts = {};                        // vocabulary, classes and symbols
  std::function<Sample(Stream)> draw = {};  // the tokens
  // Fills in targets or values; tokens that are no sample are a UserError at the place.
  std::function<void(Sample&, const Place&)> answer = {};
};

SplitFiles files_of(const std::string& name);
Splits generate(const Generator& generator, uint64_t seed);
void write_generated(const Generator& generator, const std::string& dir, uint64_t seed);
// Needs manifest.json, which says what the ids mean; recomputes every answer.
Splits load_generated(const std::string& dir, const std::string& name,
                      const std::function<Generator(const Node& config)>& make);

// The row of a data set that such a generator makes. It throws an OptionError for options that do
// not go together.
template <class Config>
DataSource generated_source(DataSource row, Generator (*generator)(const Config&)) {
  const auto name = row.name;
  const auto [train, valid, test] = files_of(name);
  row.files = {train, valid, test};
  const CheckOptions<Config> check = [=](const Config& options) { (void)generator(options); };
  const auto from_manifest = [=](const Node& options) {
    return generator(read_options<Config>(options, "config", check));
  };
  return data_source<Config>(
      std::move(row),
      [=](const DataConfig& config, const Config& options) {
        auto splits = config.path.empty() ? generate(generator(options), config.seed)
                                          : load_generated(config.path, name, from_manifest);
        refuse_cut(config, splits.max_length,
                   "their answers would change; lower data." + name + ".length instead");
        return splits;
      },
      [=](const std::string& dir, const Config& options, uint64_t seed) {
        write_generated(generator(options), dir, seed);
      },
      check);
}

// OptionError where `length_min` is above `length`.
void check_length_min(int64_t least, int64_t most);
// Between `least` (0: always `most`) and `most`.
int64_t drawn_length(int64_t least, int64_t most, Stream& stream);

}  // namespace longbow
