// Packed and plain bytes as lines, and as blocks of text: both see the same lines.
#include "longbow/corpus/files/text_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  using namespace longbow::corpus;
  const TextOptions replace = {.malformed = Malformed::replace};
  fuzz::hold(data, size,
             [](const std::string& bytes) { TextFile::in_memory(bytes, "f").read_all(1 << 24); });
  return fuzz::hold(data, size, [&](const std::string& bytes) {
    auto by_lines = TextFile::in_memory(bytes, "f", replace);
    std::string joined;
    for (std::string line; joined.size() < 1 << 24 && by_lines.line(line);)
      joined += line.append(by_lines.line_end());
    auto whole = TextFile::in_memory(bytes, "f", replace).read_all(1 << 25);
    if (joined.size() < 1 << 24 && joined != whole) fuzz::found("other lines than text");
  });
}
