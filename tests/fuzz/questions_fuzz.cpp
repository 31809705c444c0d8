// Questions: every answer that is given is where it says.
#include "longbow/corpus/readers/questions.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  using namespace longbow::corpus;
  for (const auto misplaced : {Misplaced::error, Misplaced::repair})
    fuzz::hold(data, size, [&](const std::string& bytes) {
      auto file = TextFile::in_memory(bytes, "f.json");
      read_questions(file, {.misplaced = misplaced}, [](Record&& record) {
        const auto& context = record.texts.at(1);
        for (const auto& answer : record.answers)
          if (context.compare(static_cast<size_t>(answer.byte), answer.text.size(), answer.text))
            fuzz::found("an answer that is elsewhere: " + answer.text);
      });
    });
  return 0;
}
