// A table of the Long Range Arena, and the ids in its columns.
#include "longbow/data/readers/tsv.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    for (const auto& row : parse_table(text, "f.tsv")) {
      const Place place = {"f.tsv", row.line};
      parse_ids(row.source, place);
      parse_ids(row.target, place);
    }
  });
}
