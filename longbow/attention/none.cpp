// No mixing at all: the block is its feed-forward layer, and no token sees another. The lower bound
// that every mechanism has to beat; with mean pooling it is a bag of tokens.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

struct Config {};
template <class V>
void fields(V&, Config&) {}

// One zero seen everywhere, and so is its gradient.
Tensor nothing_like(const Tensor& x) {
  return at::zeros({1}, x.options()).expand(x.sizes());
}
struct Nothing : Differentiable {
  TensorVector forward(const TensorVector& inputs) override { return {nothing_like(inputs[0])}; }
  TensorVector backward(const TensorVector& gradients) override {
    return {nothing_like(gradients[0])};
  }
};

// Its block leaves it out; anywhere else it adds nothing.
class None : public MixerImpl {
 protected:
  Tensor mix(const Tensor& x, Context&) override { return applied<Nothing>({x})[0]; }
  void open(State&, int64_t, int64_t, Context&) override {}
  Tensor grow(const Tensor& x, State&, Context&) override { return applied<Nothing>({x})[0]; }
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
