#pragma once
// What every reader gives: one record at a time, to a function that takes it. Nothing holds a whole
// corpus.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longbow/corpus/files/text_file.h"

namespace longbow::corpus {

// A stretch of a record's second text, the context.
struct Answer {
  std::string text;
  int64_t start = 0;  // in code points, as SQuAD counts
  int64_t byte = 0;   // the same in bytes
};

struct Record {
  std::vector<std::string> texts;  // one, or a pair; of a question: question and context
  std::string label;
  std::optional<double> value;
  std::vector<Answer> answers;  // none for a question without an answer
  std::string id;
  std::string group;  // what records have in common: the title of their article
  FileName file;      // shared: a copy of the name would cost more than a short text
  int64_t line = 0;   // on which the record begins, from 1
  Place place() const;
};

// Called once a record. It may move the record's parts away; what it leaves is used again.
using RecordSink = std::function<void(Record&&)>;

struct ReadCounts {
  int64_t records = 0;
  int64_t skipped = 0;   // left out because an option says so
  int64_t repaired = 0;  // given, with an answer moved to where it is
  ReadCounts& operator+=(const ReadCounts& other);
};

}  // namespace longbow::corpus
