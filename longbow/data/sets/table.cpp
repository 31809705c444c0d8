// Your own table: a text or two in each row, and a class or a number.
#include <filesystem>

#include "longbow/corpus/readers/guess_columns.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct TableConfig {
  TextFiles files = {.train = "train.csv"};
  corpus::SplitOptions fractions = {};
  corpus::TableOptions columns = {};
  corpus::TextOptions text = {};
};
template <class V>
void fields(V& v, TableConfig& c) {
  v("train", c.files.train, "file of the training split, in data.path; plain, .gz or .xz");
  v("valid", c.files.valid, "file of the validation split; empty: a fraction of the training file");
  v("test", c.files.test, "file of the test split; empty: a fraction of the training file");
  fields(v, c.columns);
  fields(v, c.fractions);
  fields(v, c.text);
}

void check(const TableConfig& config) {
  check_fractions(config.files, config.fractions);
  corpus::check_table_options(config.columns);
}

Node data_for(const std::string& file) {
  const std::filesystem::path path(file);
  const auto columns = corpus::guess_columns(file);
  Node options = Node::map(
      {{"train", Node::string(path.filename().string())}, {"text", Node::string(columns.text)}});
  if (!columns.second.empty()) options["second"] = Node::string(columns.second);
  const bool value = !columns.value.empty();
  options[value ? "value" : "label"] = Node::string(value ? columns.value : columns.label);
  return Node::map({{"path", folder_of(path)}, {"table", options}});
}

}  // namespace

DataSource table_data_set() {
  return text_source<TableConfig>(
      {.name = "table",
       .description = "your own CSV, TSV or JSON: a class or a number for a text or two",
       .objective = "classification",
       .data_for = data_for,
       .objective_for =
           [](const Node& options) {
             const std::string owner = "data.table";
             const auto config = read_options<TableConfig>(options, owner, check);
             std::string objective;
             check_options(options, owner, [&] { objective = table_objective(config.columns); });
             return objective;
           },
       .recipe = {"{task: table, data: {path: ., table: {train: train.csv, text: text, label: "
                  "label}}}",
                  "what your data allows"}},
      [](const DataConfig& data, const TableConfig& config) {
        return table_corpus(files_in(data.path, config.files), config.columns, config.fractions,
                            data.seed, config.text);
      },
      check);
}

}  // namespace longbow
