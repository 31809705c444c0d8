#include "longbow/corpus/readers/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/core/option_error.h"
#include "longbow/corpus/files/utf8_scan.h"
#include "longbow/corpus/readers/number.h"

namespace longbow::corpus {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    words += !inside && !is_space(c);
    inside = !is_space(c);
  }
  return words;
}

// Gives the pairs that the options let through.
class PairFilter {
 public:
  PairFilter(const ParallelOptions& options, const RecordSink& sink)
      : options_(options), sink_(sink) {
    check_parallel_options(options);
  }

  void add(Record&& record) {
    if (!passes(record)) {
      ++counts_.skipped;
      return;
    }
    if (options_.swap) std::swap(record.texts[0], record.texts[1]);
    ++counts_.records;
    sink_(std::move(record));
  }
  const ReadCounts& counts() const { return counts_; }

 private:
  bool passes(const Record& record) const {
    for (size_t i = 0; i < 2 && options_.empty != Empty::keep; ++i) {
      if (!stripped(record.texts[i]).empty()) continue;
      if (options_.empty == Empty::skip) return false;
      throw UserError(record.place(),
                      fmt::format("the {} text is empty", i == 0 ? "first" : "second"),
                      "set empty: skip or empty: keep to allow that");
    }
    const bool measures =
        options_.min_length > 0 || options_.max_length > 0 || options_.max_ratio > 0;
    if (!measures) return true;
    const auto [shorter, longer] =
        std::minmax({length_of(record.texts[0]), length_of(record.texts[1])});
    return shorter >= options_.min_length &&
           (options_.max_length == 0 || longer <= options_.max_length) &&
           (options_.max_ratio == 0 ||
            static_cast<double>(longer) <= options_.max_ratio * static_cast<double>(shorter));
  }

  int64_t length_of(const std::string& text) const {
    return options_.length == LengthUnit::words ? count_words(text)
                                                : static_cast<int64_t>(count_characters(text));
  }

  const ParallelOptions& options_;
  const RecordSink& sink_;
  ReadCounts counts_;
};

// Counts the lines to the end of a file.
int64_t count_lines(TextFile& file) {
  for (std::string_view line; file.line(line);) {
  }
  return file.line_number();
}

}  // namespace

void check_parallel_options(const ParallelOptions& options) {
  require_option(options.max_length == 0 || options.max_length >= options.min_length, "max_length",
                 fmt::format("is {}, below min_length, {}", options.max_length, options.min_length),
                 "no pair would be left");
  require_option(options.max_ratio == 0 || options.max_ratio >= 1, "max_ratio",
                 fmt::format("is {}", options.max_ratio), "it is 0, or at least 1");
}

ReadCounts read_parallel(TextFile& first, TextFile& second, const ParallelOptions& options,
                         const RecordSink& sink) {
  PairFilter filter(options, sink);
  Record record;
  while (true) {
    std::string_view left, right;
    const bool has_left = first.line(left), has_right = second.line(right);
    if (has_left != has_right) break;
    if (!has_left) return filter.counts();
    record.texts.resize(2);
    record.texts[0] = left;
    record.texts[1] = right;
    record.file = first.shared_name();
    record.line = first.line_number();
    filter.add(std::move(record));
  }
  const auto firsts = count_lines(first), seconds = count_lines(second);
  throw UserError(Place{first.name(), 0},
                  fmt::format("{} lines, but {} has {}", firsts, second.name(), seconds),
                  "line i of one file is the translation of line i of the other");
}

ReadCounts read_parallel(TextFile& table, const TableOptions& columns,
                         const ParallelOptions& options, const RecordSink& sink) {
  require_option(!columns.second.empty(), "second", "is empty",
                 "name the column of the second text");
  auto kept = columns;
  kept.empty = Empty::keep;  // the filter decides
  kept.label = kept.value = "";
  PairFilter filter(options, sink);
  read_table(table, kept, [&](Record&& record) { filter.add(std::move(record)); });
  return filter.counts();
}

}  // namespace longbow::corpus
