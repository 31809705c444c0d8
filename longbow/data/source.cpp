#include "longbow/data/source.h"

#include <fmt/format.h>

#include "longbow/core/log.h"

namespace longbow {
namespace {

[[noreturn]] void fail_unknown(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& source : data_sources()) known.push_back(source.name);
  throw UserError(fmt::format("unknown data set '{}'", name), suggest(name, known));
}

Splits load_listops_data(const DataConfig& config) {
  auto splits = config.path.empty()
                    ? truncate(make_listops(config.listops, config.seed), config.max_tokens)
                    : load_listops(config.path, config.max_tokens);
  if (splits.truncated > 0)
    info(fmt::format("listops: {} of {} samples cut to {} tokens", splits.truncated,
                     splits.train->size() + splits.valid->size() + splits.test->size(),
                     config.max_tokens));
  return splits;
}

Splits load_recall_data(const DataConfig& config) {
  auto splits =
      config.path.empty() ? make_recall(config.recall, config.seed) : load_recall(config.path);
  if (config.max_tokens > 0 && splits.max_length > config.max_tokens)
    throw UserError(fmt::format("max_tokens {} would cut recall samples of up to {} tokens",
                                config.max_tokens, splits.max_length),
                    "their queries stand at the end; lower pairs or queries instead");
  return splits;
}

}  // namespace

const std::vector<DataSource>& data_sources() {
  static const std::vector<DataSource> sources = {
      {.name = "listops",
       .description = "Long Range Arena ListOps: the value of a nested list expression, 10 classes",
       .files = {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"},
       .options = describe<ListOpsConfig>()},
      {.name = "recall",
       .description = "key-value recall: answer each key with the value it was shown with",
       .files = {"recall_train.tsv", "recall_val.tsv", "recall_test.tsv"},
       .options = describe<RecallConfig>()},
  };
  return sources;
}

Splits load_data(const DataConfig& config) {
  if (config.name == "listops") return load_listops_data(config);
  if (config.name == "recall") return load_recall_data(config);
  fail_unknown(config.name);
}

void make_data(const std::string& name, const std::string& dir, const Node& options,
               uint64_t seed) {
  if (name == "listops") return write_listops(dir, read<ListOpsConfig>(options), seed);
  if (name == "recall") return write_recall(dir, read<RecallConfig>(options), seed);
  fail_unknown(name);
}

}  // namespace longbow
