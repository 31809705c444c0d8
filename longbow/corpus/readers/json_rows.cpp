#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/error.h"
#include "longbow/corpus/readers/json_stream.h"
#include "longbow/corpus/readers/rows.h"

namespace longbow::corpus {
namespace {

class JsonRows : public Rows {
 public:
  JsonRows(TextFile& file, const JsonFormat& format, const std::vector<std::string>& wanted)
      : file_(file), lines_(format.lines), wanted_(wanted), values_(wanted.size()), list_(file) {
    if (lines_) return;
    if (file_.peek().empty()) throw UserError(Place{file_.name(), 0}, "is empty");
    if (list_.kind() != JsonStream::Kind::array)
      throw UserError(list_.place(), "not a list of objects",
                      "format: jsonl reads one object on each line");
    list_.open_array();
  }

  bool next(std::vector<Cell>& cells) override {
    cells.assign(wanted_.size(), {.text = {}, .is_missing = true});
    return lines_ ? next_line(cells) : next_item(cells);
  }
  int64_t line() const override { return line_; }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (size_t at = 0; at < known_.size();) {
      const auto end = known_.find('\n', at);
      names.push_back(known_.substr(at, end - at));
      at = end + 1;
    }
    return names;
  }

 private:
  bool next_line(std::vector<Cell>& cells) {
    std::string_view text;
    do
      if (!file_.line(text)) return false;
    while (text.find_first_not_of(" \t\r") == std::string_view::npos);
    line_ = file_.line_number();
    JsonStream json(text, file_);
    row(json, cells);
    json.finish();
    return true;
  }

  bool next_item(std::vector<Cell>& cells) {
    if (!list_.item()) {
      list_.finish();
      return false;
    }
    row(list_, cells);
    return true;
  }

  void row(JsonStream& json, std::vector<Cell>& cells) {
    const auto kind = json.kind();
    line_ = json.line();
    known_.clear();
    path_.clear();
    if (kind != JsonStream::Kind::object)
      throw UserError(json.place(), "a row is not an object", "write {\"key\": value, ...}");
    object(json, cells);
  }

  // path_ holds the keys above this object, each with a dot behind it.
  void object(JsonStream& json, std::vector<Cell>& cells) {
    const size_t above = path_.size();
    for (json.open_object(); json.key(key_); path_.resize(above)) {
      path_ += key_;
      const auto found = std::find(wanted_.begin(), wanted_.end(), path_);
      if (found == wanted_.end()) {
        other(json, cells);
        continue;
      }
      note_known();
      const auto index = static_cast<size_t>(found - wanted_.begin());
      if (!cells[index].is_missing) throw UserError(json.place(), "duplicate key " + quote(path_));
      cells[index] = cell(json, values_[index]);
      // One column may be wanted twice.
      for (size_t i = index + 1; i < wanted_.size(); ++i)
        if (wanted_[i] == path_) cells[i] = cells[index];
    }
  }

  Cell cell(JsonStream& json, std::string& value) {
    using Kind = JsonStream::Kind;
    const auto kind = json.kind();
    if (kind == Kind::object || kind == Kind::array)
      throw UserError(
          json.place(),
          fmt::format("key {} is {}", quote(path_), kind == Kind::array ? "a list" : "an object"),
          "a string, a number or a boolean is expected");
    if (kind == Kind::string)
      json.string(value);
    else
      json.word(value);
    if (kind == Kind::null) return {};
    return {.text = value, .is_number = kind == Kind::number};
  }

  void other(JsonStream& json, std::vector<Cell>& cells) {
    const bool is_object = json.kind() == JsonStream::Kind::object;
    const bool leads_on =
        is_object && std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& name) {
          return name.size() > path_.size() && name[path_.size()] == '.' && name.starts_with(path_);
        });
    if (leads_on) {
      path_ += '.';
      return object(json, cells);
    }
    note_known();
    json.skip();
  }

  void note_known() {
    constexpr size_t kMost = 4000;  // bytes of names that a message can suggest
    if (known_.size() + path_.size() > kMost || path_.find('\n') != std::string::npos) return;
    known_ += path_;
    known_ += '\n';
  }

  TextFile& file_;
  bool lines_;
  std::vector<std::string> wanted_, values_;
  std::string path_, key_;
  std::string known_;  // the keys of this row, each with a line break behind it
  JsonStream list_;
  int64_t line_ = 0;
};

}  // namespace

std::unique_ptr<Rows> json_rows(TextFile& file, const JsonFormat& format,
                                const std::vector<std::string>& wanted) {
  return std::make_unique<JsonRows>(file, format, wanted);
}

}  // namespace longbow::corpus
