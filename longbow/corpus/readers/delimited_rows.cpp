#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/corpus/readers/rows.h"

namespace longbow::corpus {
namespace {

constexpr const char* kDoubled = "a quote inside a field is doubled: \"\"";

class DelimitedRows : public Rows {
 public:
  DelimitedRows(TextFile& file, const DelimitedFormat& format,
                const std::vector<std::string>& wanted)
      : file_(file), format_(format) {
    if (!read_row())
      throw UserError(Place{file_.name(), 0}, "is empty",
                      format_.header ? "the first line names the columns" : "");
    for (size_t i = 0; i < fields_.size(); ++i)
      columns_.push_back(format_.header ? std::string(text_of(fields_[i])) : std::to_string(i + 1));
    for (const auto& name : wanted) indices_.push_back(column(name));
    pending_ = !format_.header;
  }

  bool next(std::vector<Cell>& cells) override {
    if (!std::exchange(pending_, false) && !read_row()) return false;
    if (fields_.size() != columns_.size()) fail_count();
    cells.resize(indices_.size());
    for (size_t i = 0; i < indices_.size(); ++i) cells[i] = {.text = text_of(fields_[indices_[i]])};
    return true;
  }
  int64_t line() const override { return line_; }
  std::vector<std::string> known() const override { return columns_; }

 private:
  // Of row_, or of unquoted_. Offsets, since row_ moves when a quoted field goes on in the next
  // line.
  struct Field {
    size_t begin = 0, size = 0;
    bool is_unquoted = false;
  };

  std::string_view text_of(const Field& field) const {
    return (field.is_unquoted ? std::string_view(unquoted_) : row_).substr(field.begin, field.size);
  }

  size_t column(const std::string& name) const {
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    const auto place = file_.place_at(line_);
    if (found == columns_.end())
      throw UserError(place, "no column " + quote(name),
                      format_.header ? suggest(name, columns_)
                                     : fmt::format("without a header the columns are 1 to {}",
                                                   columns_.size()));
    if (std::find(found + 1, columns_.end(), name) != columns_.end())
      throw UserError(place, fmt::format("two columns are called {}", quote(name)),
                      "rename one of them");
    return static_cast<size_t>(found - columns_.begin());
  }

  bool read_row() {
    do
      if (!file_.line(row_)) return false;
    while (row_.empty());
    line_ = file_.line_number();
    fields_.clear();
    unquoted_.clear();
    for (size_t at = 0;; ++at) {
      const bool quoted = format_.quotes && at < row_.size() && row_[at] == '"';
      at = quoted ? quoted_field(at) : plain_field(at);
      if (at == row_.size()) return true;
    }
  }

  size_t plain_field(size_t at) {
    const auto end = std::min(row_.find(format_.separator, at), row_.size());
    fields_.push_back({.begin = at, .size = end - at});
    return end;
  }

  size_t quoted_field(size_t at) {
    const auto opened = file_.line_number();
    const size_t begin = at + 1;
    bool doubled = false;
    size_t end = begin;
    while (true) {
      const auto found = row_.find('"', end);
      if (found == std::string_view::npos) {
        end = row_.size();
        append_line(opened);
      } else if (row_.substr(found + 1, 1) == "\"") {
        doubled = true;
        end = found + 2;
      } else {
        end = found;
        break;
      }
    }
    if (end + 1 < row_.size() && row_[end + 1] != format_.separator)
      throw UserError(file_.place(), "text follows a closing double quote", kDoubled);
    if (doubled)
      unquote(row_.substr(begin, end - begin));
    else
      fields_.push_back({.begin = begin, .size = end - begin});
    return end + 1;
  }

  void unquote(std::string_view text) {
    const size_t begin = unquoted_.size();
    for (size_t at = 0; at < text.size();) {
      const auto quote = std::min(text.find('"', at), text.size() - 1);
      unquoted_ += text.substr(at, quote + 1 - at);
      at = quote + 1 + (text[quote] == '"' ? 1 : 0);
    }
    fields_.push_back({.begin = begin, .size = unquoted_.size() - begin, .is_unquoted = true});
  }

  // The quoted field that began on line `opened` goes on in the next line.
  void append_line(int64_t opened) {
    if (row_.data() != joined_.data()) joined_ = row_;
    joined_ += file_.line_end();
    std::string_view line;
    if (!file_.line(line))
      throw UserError(file_.place_at(opened), "a double quote is not closed", kDoubled);
    joined_ += line;
    if (std::cmp_greater(joined_.size(), file_.options().max_line))
      throw UserError(file_.place_at(opened),
                      fmt::format("the row is longer than {} bytes", file_.options().max_line),
                      "is a double quote not closed? max_line sets the limit");
    row_ = joined_;
  }

  [[noreturn]] void fail_count() const {
    throw UserError(file_.place_at(line_),
                    fmt::format("{} columns, but the {} has {}", fields_.size(),
                                format_.header ? "header" : "first row", columns_.size()),
                    format_.quotes
                        ? "put fields that hold the separator or a line break in double quotes"
                        : "set quotes: double if fields with the separator are in double quotes");
  }

  TextFile& file_;
  DelimitedFormat format_;
  std::vector<std::string> columns_;
  std::vector<size_t> indices_;
  std::vector<Field> fields_;
  std::string_view row_;
  std::string joined_, unquoted_;
  int64_t line_ = 0;
  bool pending_ = false;
};

}  // namespace

std::unique_ptr<Rows> delimited_rows(TextFile& file, const DelimitedFormat& format,
                                     const std::vector<std::string>& wanted) {
  return std::make_unique<DelimitedRows>(file, format, wanted);
}

}  // namespace longbow::corpus
