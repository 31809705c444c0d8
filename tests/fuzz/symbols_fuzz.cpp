// A line that `longbow predict` is asked: what is read is written and read again as the same ids.
#include "longbow/data/readers/symbols.h"
#include "tests/fuzz/fuzz.h"

namespace {

void round_trip(const longbow::Symbols& symbols, const std::string& line) {
  const longbow::Place place = {"-", 1};
  const auto ids = symbols.read(line, place);
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  if (symbols.read(symbols.text(wide), place) != ids) longbow::fuzz::found(symbols.text(wide));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  static const Symbols named({"", "[MAX", "[MIN", "]", "0", "1", "가", "mean"}, 8),
      numbered({}, 40);
  fuzz::hold(data, size, [](const std::string& line) { round_trip(named, line); });
  return fuzz::hold(data, size, [](const std::string& line) { round_trip(numbered, line); });
}
