#include <fmt/format.h>

#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/tsv.h"
#include "longbow/data/sets/listops.h"

namespace longbow {
namespace {

const SplitFiles kFiles{"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"};

LabelledExpression check_row(std::string_view source, std::string_view label, const Place& place) {
  auto expression = parse_expression(source, place);
  if (label.size() != 1 || label[0] < '0' || label[0] > '9')
    throw UserError(place, fmt::format("label {} is not a digit 0-9", excerpt(label)));
  auto value = expression.value();
  if (value != label[0] - '0')
    throw UserError(place, fmt::format("label {} but the expression is {}", label, value),
                    "the file was changed or cut");
  return {std::move(expression), value};
}

std::string table_of(const Dataset& dataset) {
  std::string text = "Source\tTarget\n";
  for (int64_t i = 0; i < dataset.size(); ++i) {
    auto sample = dataset.get(i);
    text += expression_of(sample.tokens).text();
    text += fmt::format("\t{}\n", sample.targets[0]);
  }
  return text;
}

std::shared_ptr<const MemoryDataset> parse_split(const std::string& contents,
                                                 const std::string& path) {
  auto dataset = std::make_shared<MemoryDataset>(MemoryDataset::Targets::one_class);
  for (const auto& row : parse_table(contents, path)) {
    auto [expression, label] = check_row(row.source, row.target, {path, row.line});
    dataset->add(expression.symbols, std::vector<int32_t>{label});
  }
  return dataset;
}

// Nothing in a file shows that whole lines are missing at its end, so say what could not be
// checked.
void warn_without_manifest(const std::string& dir, const Splits& splits) {
  const ListOpsConfig official;
  if (splits.train->size() == official.train && splits.valid->size() == official.valid &&
      splits.test->size() == official.test)
    return;
  warn(
      fmt::format("{}: {} training, {} validation and {} test samples, and no manifest.json to "
                  "compare with; the official files have {}, {} and {}",
                  dir, splits.train->size(), splits.valid->size(), splits.test->size(),
                  official.train, official.valid, official.test));
}

}  // namespace

std::vector<LabelledExpression> parse_listops(const std::string& contents,
                                              const std::string& path) {
  std::vector<LabelledExpression> rows;
  for (const auto& row : parse_table(contents, path))
    rows.push_back(check_row(row.source, row.target, {path, row.line}));
  return rows;
}

void write_listops(const std::string& dir, const ListOpsConfig& config, uint64_t seed) {
  write_splits({.dir = dir,
                .files = kFiles,
                .splits = make_listops(config, seed),
                .table = table_of,
                .manifest = {.name = "listops",
                             .seed = seed,
                             .version = kListOpsVersion,
                             .config = written(config)}});
}

Splits load_listops(const std::string& dir, int64_t max_tokens) {
  Splits splits{.vocabulary = listops::kVocabulary,
                .classes = listops::kClasses,
                .symbols = listops::symbols(),
                .labels = listops::labels()};
  auto manifest = find_manifest(dir);
  read_splits({.dir = dir, .files = kFiles, .parse = parse_split, .manifest = manifest}, splits);
  if (!manifest) warn_without_manifest(dir, splits);
  return truncate(std::move(splits), max_tokens);
}

}  // namespace longbow
