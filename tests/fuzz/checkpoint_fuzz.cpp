// trainer.json of a checkpoint: what is read is a place where a training can be.
#include "longbow/train/run/checkpoint.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longbow;
  return fuzz::hold(data, size, [](const std::string& text) {
    const auto at = parse_trainer(text, "trainer.json").progressed;
    if (at.step < 0 || at.position.epoch < 0 || at.position.index < 0)
      fuzz::found("accepted a place before the first step");
  });
}
