// metrics.jsonl, and the bands that a report draws of it.
#include "longbow/report/table/metrics.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    std::vector<std::string> notes;
    const auto curves = reporting::parse_curves(text, "metrics.jsonl", {}, notes);
    for (const auto& curve : curves) reporting::bands(curves, curve.task, curve.quantity, 8);
  });
}
