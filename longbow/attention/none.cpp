// No mixing at all: the block is its feed-forward layer, and no token sees another. The lower bound
// that every mechanism has to beat; with mean pooling it is a bag of tokens.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"

namespace longbow {
namespace {

struct Config {};
template <class V>
void fields(V&, Config&) {}

// Its block leaves it out; anywhere else it adds nothing, with a gradient of nothing.
class None : public MixerImpl {
 protected:
  Tensor mix(const Tensor& x, Context&) override { return x * 0; }
  void open(State&, int64_t, int64_t, Context&) override {}
  Tensor grow(const Tensor& x, State&, Context&) override { return x * 0; }
};

Promises promises(const Config&) {
  return {.future = Future::exact, .decode = true};
}

Mixer make(const Site&, const Config&) {
  return std::make_shared<None>();
}

}  // namespace

Mechanism none_mechanism() {
  auto row = over_tokens<Config>({.name = "none",
                                  .family = "baseline",
                                  .paper = "none",
                                  .cost = "O(1)",
                                  .summary = "Feed-forward layers only: no token sees another.",
                                  .exact = "zero"},
                                 promises, make);
  row.block = [](BlockConfig& config, const Node&) { config.mixes = false; };
  return row;
}

}  // namespace longbow
