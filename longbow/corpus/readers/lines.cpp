#include "longbow/corpus/readers/lines.h"

#include <fmt/format.h>

#include <utility>

#include "longbow/core/error.h"
#include "longbow/corpus/files/text_files.h"
#include "longbow/corpus/readers/heading.h"
#include "longbow/corpus/readers/number.h"

namespace longbow::corpus {
namespace {

class LinesReader {
 public:
  LinesReader(TextFile& file, const LinesOptions& options, const RecordSink& sink)
      : file_(file), options_(options), sink_(sink) {
    record_.texts.resize(1);
  }

  ReadCounts read() {
    switch (options_.unit) {
      case LinesUnit::line:
        lines();
        break;
      case LinesUnit::paragraph:
        paragraphs();
        break;
      case LinesUnit::section:
        sections();
        break;
      case LinesUnit::file:
        record_.texts[0] = file_.read_all(options_.max_record);
        give(1);
        break;
    }
    return counts_;
  }

 private:
  void lines() {
    for (std::string_view line; file_.line(line);) {
      check_size(line.size(), file_.line_number());
      record_.texts.resize(1);
      record_.texts[0] = line;
      give(file_.line_number());
    }
  }

  void paragraphs() {
    int64_t first = 0;  // line of the paragraph; 0 between paragraphs
    for (std::string_view line; file_.line(line);) {
      const bool is_blank = stripped(line).empty();
      if (is_blank && first > 0) give(std::exchange(first, 0));
      if (is_blank) continue;
      if (first == 0) {
        first = file_.line_number();
        begin();
      }
      append(line, first);
    }
    if (first > 0) give(first);
  }

  void sections() {
    const Heading heading(options_.heading);
    int64_t first = 0;
    std::string title;
    for (std::string_view line; file_.line(line);) {
      const bool is_heading = heading.matches(line, title);
      if (is_heading && first > 0) give(first);
      if (is_heading || first == 0) {
        first = file_.line_number();
        begin();
        record_.id = is_heading ? title : "";
      }
      if (!is_heading || options_.keep_heading) append(line, first);
    }
    if (first > 0) give(first);
  }

  void begin() {
    record_.texts.resize(1);
    record_.texts[0].clear();
    is_first_line_ = true;
  }

  void append(std::string_view line, int64_t first) {
    auto& text = record_.texts[0];
    if (!std::exchange(is_first_line_, false)) text += '\n';
    text += line;
    check_size(text.size(), first);
  }

  void check_size(size_t size, int64_t line) const {
    if (std::cmp_greater(size, options_.max_record))
      throw UserError(file_.place_at(line),
                      fmt::format("the {} is longer than {} bytes", name_of(options_.unit),
                                  options_.max_record),
                      "max_record sets the limit");
  }

  void give(int64_t line) {
    auto& text = record_.texts[0];
    const auto inner = stripped(text);
    if (inner.empty() && !options_.keep_blank) {
      ++counts_.skipped;
      return;
    }
    if (options_.strip && inner.size() < text.size()) text = std::string(inner);
    record_.file = file_.shared_name();
    record_.line = line;
    ++counts_.records;
    sink_(std::move(record_));
  }

  TextFile& file_;
  const LinesOptions& options_;
  const RecordSink& sink_;
  Record record_;
  ReadCounts counts_;
  bool is_first_line_ = true;
};

}  // namespace

ReadCounts read_lines(TextFile& file, const LinesOptions& options, const RecordSink& sink) {
  return LinesReader(file, options, sink).read();
}

ReadCounts read_lines(const std::string& path, const TextOptions& text, const LinesOptions& options,
                      const RecordSink& sink) {
  ReadCounts counts;
  for (const auto& name : text_files(path)) {
    TextFile file(name, text);
    counts += read_lines(file, options, sink);
  }
  return counts;
}

}  // namespace longbow::corpus
