#pragma once
// Questions about a context whose answers are stretches of it: SQuAD 1.1 and 2.0, KorQuAD 1.
#include <array>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/corpus/readers/record.h"

namespace longbow::corpus {

enum class Misplaced { error, repair, skip };
constexpr std::array<std::string_view, 3> names_of(Misplaced) {
  return {"error", "repair", "skip"};
}

struct QuestionOptions {
  Misplaced misplaced = Misplaced::error;
};
template <class V>
void fields(V& v, QuestionOptions& o) {
  v("misplaced", o.misplaced,
    "answers that are not where the file says: error, repair by the nearest place where the answer "
    "occurs, skip the answer; repair skips what does not occur. A question without any answer left "
    "is skipped");
}

// A record's texts are the question and its context; its group is the title of the article. A
// question that the file calls impossible has no answers. Memory is that of one article.
ReadCounts read_questions(TextFile& file, const QuestionOptions& options, const RecordSink& sink);

}  // namespace longbow::corpus
