// vocabulary.json of a run.
#include "longbow/data/samples/facts.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    const auto once = to_json(parse_facts(text, "vocabulary.json"));
    const auto twice = to_json(parse_facts(once, "again.json"));
    if (once != twice) fuzz::found("became " + twice);
  });
}
