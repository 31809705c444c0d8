// manifest.json of a data set.
#include "longbow/data/readers/manifest.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    const auto manifest = parse_manifest(text, "manifest.json");
    const auto again = parse_manifest(to_json(written(manifest)), "again.json");
    if (!(written(again) == written(manifest))) fuzz::found("became " + to_json(written(again)));
  });
}
