#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"

namespace longbow::corpus {

enum class TableFormat { automatic, csv, tsv, jsonl, json };
constexpr std::array<std::string_view, 5> names_of(TableFormat) {
  return {"auto", "csv", "tsv", "jsonl", "json"};
}
enum class Separator { automatic, comma, semicolon, tab };
constexpr std::array<std::string_view, 4> names_of(Separator) {
  return {"auto", "comma", "semicolon", "tab"};
}
enum class Quotes { automatic, doubled, none };
constexpr std::array<std::string_view, 3> names_of(Quotes) {
  return {"auto", "double", "none"};
}
enum class Empty { error, skip, keep };
constexpr std::array<std::string_view, 3> names_of(Empty) {
  return {"error", "skip", "keep"};
}

struct TableOptions {
  TableFormat format = TableFormat::automatic;
  Separator separator = Separator::automatic;
  Quotes quotes = Quotes::automatic;
  bool header = true;
  std::string text = "text", second = "", label = "label", value = "", id = "";
  Empty empty = Empty::error;
  std::vector<std::string> classes;
  Node label_map;
};
template <class V>
void fields(V& v, TableOptions& o) {
  v("format", o.format,
    "auto: by the name without .gz or .xz, else by the first bytes; .json is a list of objects, or "
    "one object on each line");
  v("separator", o.separator,
    "between columns; auto: a tab in TSV, in CSV the one that is most frequent in the first line");
  v("quotes", o.quotes,
    "double: fields may be in double quotes, as RFC 4180 says; none: a quote is a character like "
    "any other; auto: double in CSV, none in TSV");
  v("header", o.header, "the first line names the columns; if false, they are called 1, 2, 3, ...");
  v("text", o.text, "column of the text; of JSON a key, or a dotted path such as labels.label");
  v("second", o.second, "column of a second text; empty: none");
  v("label", o.label, "column of the class; empty: none");
  v("value", o.value, "column of a number to predict; empty: none");
  v("id", o.id, "column of an identifier; empty: none");
  v("empty", o.empty,
    "rows in which one of these columns is empty, null or missing: error, skip the row, keep it");
  v("classes", o.classes,
    "all classes, in the order of their ids; empty: those that occur, sorted");
  v("label_map", o.label_map, "name of the class for each label of the file; null: as in the file");
}

}  // namespace longbow::corpus
