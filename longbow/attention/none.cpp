// No mixing at all: the block is its feed-forward layer, and no token sees another. The lower bound
// that every mechanism has to beat; with mean pooling it is a bag of tokens.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "longbow/attention/mechanism.h"

namespace longbow {
namespace {

struct Config {};
template <class V>
void fields(V&, Config&) {}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One zero seen everywhere, and so is its gradient.
Tensor nothing_like(const Tensor& x) {
  return at::zeros({1}, x.options()).expand(x.sizes());
}
struct Nothing : torch::autograd::Function<Nothing> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return nothing_like(x); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {nothing_like(gradients[0])};
  }
};

// Its block leaves it out; anywhere else it adds nothing.
class None : public MixerImpl {
 protected:
  Tensor mix(const Tensor& x, Context&) override { return Nothing::apply(x); }
  void open(State&, int64_t, int64_t, Context&) override {}
  Tensor grow(const Tensor& x, State&, Context&) override { return Nothing::apply(x); }
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
