#pragma once
// Running text: lines, paragraphs, sections below headings, or whole files as records.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/corpus/readers/record.h"

namespace longbow::corpus {

enum class LinesUnit { line, paragraph, section, file };
constexpr std::array<std::string_view, 4> names_of(LinesUnit) {
  return {"line", "paragraph", "section", "file"};
}

struct LinesOptions {
  LinesUnit unit = LinesUnit::line;
  std::string heading = "";
  bool keep_heading = false, keep_blank = false, strip = false;
  int64_t max_record = int64_t{1} << 30;
};
template <class V>
void fields(V& v, LinesOptions& o) {
  v("unit", o.unit,
    "what becomes a record; paragraphs have blank lines between them, a section goes from one "
    "heading to the next");
  v("heading", o.heading,
    "regular expression (PCRE2) that a heading matches from the first to the last character of its "
    "line; its first group, or else the whole line, is the record's id; for unit: section");
  v("keep_heading", o.keep_heading, "the heading is the first line of its section's text");
  v("keep_blank", o.keep_blank, "records without any text are given too");
  v("strip", o.strip, "remove blanks and line breaks at both ends of a record");
  v("max_record", o.max_record, "longest record in bytes", range(1, 1e12));
}

// One text a record. Lines of a paragraph or a section are joined by LF; a file is as it is.
ReadCounts read_lines(TextFile& file, const LinesOptions& options, const RecordSink& sink);

// A file, or all text files below a folder (text_files.h), one after another.
ReadCounts read_lines(const std::string& path, const TextOptions& text, const LinesOptions& options,
                      const RecordSink& sink);

}  // namespace longbow::corpus
