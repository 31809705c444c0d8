#include "longbow/corpus/readers/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "longbow/core/error.h"
#include "longbow/core/utf8.h"
#include "longbow/corpus/files/utf8_scan.h"
#include "longbow/corpus/readers/json_stream.h"

namespace longbow::corpus {
namespace {

using Kind = JsonStream::Kind;

// The offset of a code point, or the size of the text when it has fewer.
size_t byte_of(std::string_view text, int64_t character) {
  size_t at = 0;
  for (; character > 0 && at < text.size(); --character) at += utf8_at(text, at).bytes;
  return at;
}

// The occurrence of `part` that is nearest to this offset, or npos.
size_t nearest_occurrence(std::string_view text, std::string_view part, size_t near) {
  const auto after = text.find(part, near), before = text.rfind(part, near);
  if (after == std::string_view::npos || before == std::string_view::npos)
    return std::min(after, before);
  return near - before <= after - near ? before : after;
}

class QuestionReader {
 public:
  QuestionReader(TextFile& file, const QuestionOptions& options, const RecordSink& sink)
      : file_(file), json_(file), options_(options), sink_(sink) {}

  ReadCounts read() {
    if (file_.peek().empty()) throw UserError(Place{file_.name(), 0}, "is empty");
    bool has_data = false;
    require(Kind::object, "the file");
    for (json_.open_object(); json_.key(key_);) {
      if (key_ != "data") {
        json_.skip();
        continue;
      }
      has_data = true;
      require(Kind::array, "data");
      for (json_.open_array(); json_.item();) article();
    }
    json_.finish();
    if (!has_data)
      throw UserError(Place{file_.name(), 0}, "no key 'data'",
                      "a file of questions is {\"data\": [{\"title\": ..., \"paragraphs\": ...}]}");
    return counts_;
  }

 private:
  // A question whose context may come after it.
  struct Question {
    Record record;
    bool is_impossible = false;
  };

  void require(Kind kind, const std::string& what) {
    if (json_.kind() == kind) return;
    throw UserError(json_.place(), fmt::format("{} is not {}", what,
                                               kind == Kind::object  ? "an object"
                                               : kind == Kind::array ? "a list"
                                                                     : "a string"));
  }

  void string(const std::string& what, std::string& text) {
    require(Kind::string, what);
    json_.string(text);
  }

  // Gives its questions at its end, since its title may be the last of its keys.
  void article() {
    std::string title;
    std::vector<Record> records;
    require(Kind::object, "an article");
    for (json_.open_object(); json_.key(key_);) {
      if (key_ == "title") {
        string("title", title);
      } else if (key_ == "paragraphs") {
        require(Kind::array, "paragraphs");
        for (json_.open_array(); json_.item();) paragraph(records);
      } else {
        json_.skip();
      }
    }
    for (auto& record : records) {
      record.group = title;
      ++counts_.records;
      sink_(std::move(record));
    }
  }

  void paragraph(std::vector<Record>& records) {
    std::string context;
    bool has_context = false;
    std::vector<Question> questions;
    require(Kind::object, "a paragraph");
    const auto place = json_.place();
    for (json_.open_object(); json_.key(key_);) {
      if (key_ == "context") {
        string("context", context);
        has_context = true;
      } else if (key_ == "qas") {
        require(Kind::array, "qas");
        for (json_.open_array(); json_.item();) questions.push_back(question());
      } else {
        json_.skip();
      }
    }
    if (!has_context) throw UserError(place, "a paragraph has no context");
    for (auto& asked : questions) {
      if (!place_answers(asked, context)) {
        ++counts_.skipped;
        continue;
      }
      asked.record.texts.push_back(context);
      records.push_back(std::move(asked.record));
    }
  }

  Question question() {
    Question asked;
    auto& record = asked.record;
    require(Kind::object, "a question");
    record.file = file_.shared_name();
    record.line = json_.line();
    for (json_.open_object(); json_.key(key_);) {
      if (key_ == "question") {
        record.texts.resize(1);
        string("question", record.texts[0]);
      } else if (key_ == "id") {
        identifier(record.id);
      } else if (key_ == "is_impossible") {
        asked.is_impossible = boolean("is_impossible");
      } else if (key_ == "answers") {
        require(Kind::array, "answers");
        for (json_.open_array(); json_.item();) record.answers.push_back(answer(record));
      } else {
        json_.skip();
      }
    }
    if (record.texts.empty())
      throw UserError(record.place(), fmt::format("question {} has no text", quote(record.id)));
    return asked;
  }

  void identifier(std::string& id) {
    if (json_.kind() == Kind::number)
      json_.word(id);
    else
      string("id", id);
  }

  bool boolean(const std::string& what) {
    if (json_.kind() != Kind::boolean)
      throw UserError(json_.place(), what + " is not true or false");
    json_.word(word_);
    return word_ == "true";
  }

  Answer answer(const Record& record) {
    Answer found;
    bool has_text = false, has_start = false;
    require(Kind::object, "an answer");
    for (json_.open_object(); json_.key(key_);) {
      if (key_ == "text") {
        string("text", found.text);
        has_text = true;
      } else if (key_ == "answer_start") {
        found.start = integer("answer_start");
        has_start = true;
      } else {
        json_.skip();
      }
    }
    if (!has_text || !has_start)
      throw UserError(json_.place(),
                      fmt::format("an answer of question {} lacks {}", quote(record.id),
                                  has_text ? "answer_start" : "text"));
    return found;
  }

  int64_t integer(const std::string& what) {
    word_.clear();
    if (json_.kind() == Kind::number) json_.word(word_);
    int64_t value = 0;
    const auto* end = word_.data() + word_.size();
    const auto [stop, error] = std::from_chars(word_.data(), end, value);
    if (error != std::errc() || stop != end)
      throw UserError(json_.place(), what + " is not an integer");
    return value;
  }

  // Whether the question is to be given.
  bool place_answers(Question& asked, const std::string& context) {
    auto& answers = asked.record.answers;
    if (asked.is_impossible) answers.clear();
    if (answers.empty()) return true;
    bool repaired = false;
    std::erase_if(answers, [&](Answer& answer) {
      return !place_answer(answer, asked.record, context, repaired);
    });
    counts_.repaired += repaired && !answers.empty();
    return !answers.empty();
  }

  bool place_answer(Answer& answer, const Record& record, std::string_view context,
                    bool& repaired) const {
    const auto at = byte_of(context, answer.start);
    answer.byte = static_cast<int64_t>(at);
    const bool fits = answer.start >= 0 && !answer.text.empty() &&
                      context.substr(at, answer.text.size()) == answer.text;
    if (fits) return true;
    if (options_.misplaced == Misplaced::error) fail_misplaced(answer, record);
    if (options_.misplaced == Misplaced::skip || answer.text.empty()) return false;
    const auto found = nearest_occurrence(context, answer.text, at);
    if (found == std::string_view::npos) return false;
    answer.byte = static_cast<int64_t>(found);
    answer.start = static_cast<int64_t>(count_characters(context.substr(0, found)));
    return repaired = true;
  }

  [[noreturn]] static void fail_misplaced(const Answer& answer, const Record& record) {
    const auto what = answer.text.empty()
                          ? std::string("an answer is empty")
                          : fmt::format("the answer {} is not at character {} of its context",
                                        quote(answer.text), answer.start);
    throw UserError(record.place(), fmt::format("question {}: {}", quote(record.id), what),
                    "set misplaced: repair or misplaced: skip");
  }

  TextFile& file_;
  JsonStream json_;
  const QuestionOptions& options_;
  const RecordSink& sink_;
  ReadCounts counts_;
  std::string key_, word_;
};

}  // namespace

ReadCounts read_questions(TextFile& file, const QuestionOptions& options, const RecordSink& sink) {
  return QuestionReader(file, options, sink).read();
}

}  // namespace longbow::corpus
