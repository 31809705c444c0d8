// trainer.json of a checkpoint.
#include "longbow/train/checkpoint.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size,
                    [](const std::string& text) { parse_trainer(text, "trainer.json"); });
}
