// results.json of an arena, a run or a bench.
#include "longbow/report/table/record.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size,
                    [](const std::string& text) { parse_record(text, "nowhere/results.json"); });
}
