// A config that is read is written and read again as the same tree.
#include "longbow/core/config.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    const auto tree = parse_yaml(text, "f.yaml");
    if (!(parse_yaml(to_yaml(tree), "again.yaml") == tree)) fuzz::found("became " + to_yaml(tree));
    parse_json(to_json(tree), "again.json");
  });
}
