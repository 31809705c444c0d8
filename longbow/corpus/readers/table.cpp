#include "longbow/corpus/readers/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/core/option_error.h"
#include "longbow/corpus/readers/number.h"
#include "longbow/corpus/readers/table_format.h"

namespace longbow::corpus {
namespace {

using LabelMap = std::map<std::string, std::string, std::less<>>;

LabelMap label_map_of(const Node& node) {
  require_option(node.is_null() || node.is_map(), "label_map", "is not a map",
                 "write {label: class, ...}");
  LabelMap map;
  for (const auto& [label, name] : node.entries) {
    require_option(name.is_scalar(), "label_map." + label, "is not the name of a class",
                   "write {label: class, ...}");
    map[label] = name.text;
  }
  return map;
}

// Rows as records.
class TableReader {
 public:
  TableReader(TextFile& file, const TableOptions& options)
      : file_(file), options_(options), map_(label_map_of(options.label_map)) {
    check_table_options(options);
    for (const auto* name :
         {&options.text, &options.second, &options.label, &options.value, &options.id})
      if (!name->empty()) wanted_.push_back(*name);
    rows_ = open_rows(file, options, wanted_);
    seen_.resize(wanted_.size());
  }

  ReadCounts read(const RecordSink& sink) {
    ReadCounts counts;
    Record record;
    while (rows_->next(cells_)) {
      for (size_t i = 0; i < cells_.size(); ++i) seen_[i] |= !cells_[i].is_missing;
      if (!has_all()) {
        ++counts.skipped;
        continue;
      }
      fill(record);
      ++counts.records;
      sink(std::move(record));
    }
    if (counts.records + counts.skipped == 0) {
      const bool has_header = rows_->line() > 0;
      throw UserError(place(), "no rows", has_header ? "the first line names the columns" : "");
    }
    // A key that no row has is a mistake in the options, whatever they say of single rows.
    const auto unseen = std::find(seen_.begin(), seen_.end(), false) - seen_.begin();
    if (std::cmp_less(unseen, wanted_.size()))
      throw UserError(Place{file_.name(), 0},
                      "no row has the key " + quote(wanted_[static_cast<size_t>(unseen)]),
                      suggest(wanted_[static_cast<size_t>(unseen)], rows_->known()));
    return counts;
  }

 private:
  Place place() const { return file_.place_at(rows_->line()); }

  // Whether the row is to be given; UserError where an empty cell is an error.
  bool has_all() const {
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (!stripped(cells_[i].text).empty() || options_.empty == Empty::keep) continue;
      if (options_.empty == Empty::skip) return false;
      if (cells_[i].is_missing)
        throw UserError(place(), "no key " + quote(wanted_[i]),
                        suggest(wanted_[i], rows_->known()));
      throw UserError(place(), fmt::format("column {} is empty", quote(wanted_[i])),
                      "set empty: skip or empty: keep to allow that");
    }
    return true;
  }

  void fill(Record& record) const {
    size_t next = 0;
    record.texts.resize(options_.second.empty() ? 1 : 2);
    for (auto& text : record.texts) text = cells_[next++].text;
    if (!options_.label.empty()) set_label(record, cells_[next++]);
    if (!options_.value.empty()) record.value = number(cells_[next++]);
    if (!options_.id.empty()) record.id = stripped(cells_[next].text);
    record.file = file_.shared_name();
    record.line = rows_->line();
  }

  void set_label(Record& record, const Cell& cell) const {
    if (cell.is_number)
      record.label = class_name_of(cell.text);
    else
      record.label = stripped(cell.text);
    if (record.label.empty()) return;
    if (!map_.empty()) {
      const auto found = map_.find(record.label);
      if (found == map_.end()) fail_label(record.label, "label_map", keys_of(map_));
      record.label = found->second;
    }
    const auto& classes = options_.classes;
    if (!classes.empty() &&
        std::find(classes.begin(), classes.end(), record.label) == classes.end())
      fail_label(record.label, "classes", classes);
  }

  static std::vector<std::string> keys_of(const LabelMap& map) {
    std::vector<std::string> keys;
    for (const auto& [key, name] : map) keys.push_back(key);
    return keys;
  }

  [[noreturn]] void fail_label(const std::string& label, const char* option,
                               const std::vector<std::string>& known) const {
    throw UserError(place(), fmt::format("label {} is not in {}", quote(label), option),
                    suggest(label, known));
  }

  std::optional<double> number(const Cell& cell) const {
    if (stripped(cell.text).empty()) return std::nullopt;
    const auto value = parse_number(cell.text);
    if (!value)
      throw UserError(place(), fmt::format("column {} is {}, not a number", quote(options_.value),
                                           quote(std::string(cell.text))));
    return value;
  }

  TextFile& file_;
  const TableOptions& options_;
  LabelMap map_;
  std::vector<std::string> wanted_;
  std::unique_ptr<Rows> rows_;
  std::vector<Cell> cells_;
  std::vector<char> seen_;  // whether a row had this column
};

}  // namespace

void check_table_options(const TableOptions& options) {
  require_option(!options.text.empty(), "text", "is empty", "name the column of the text");
  (void)label_map_of(options.label_map);
}

ReadCounts read_table(TextFile& file, const TableOptions& options, const RecordSink& sink) {
  return TableReader(file, options).read(sink);
}

}  // namespace longbow::corpus
