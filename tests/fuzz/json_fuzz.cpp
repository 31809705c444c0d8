// JSON that is read is written, compact and indented, and read again as the same tree.
#include "longbow/core/config.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    const auto tree = parse_json(text, "f.json");
    for (const int indent : {-1, 2})
      if (!(parse_json(to_json(tree, indent), "again.json") == tree))
        fuzz::found("became " + to_json(tree, indent));
  });
}
