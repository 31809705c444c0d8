#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

const std::pair<const char*, const char*> kProjections[] = {
    {"query", "to_q"}, {"key", "to_k"}, {"value", "to_v"}, {"output", "to_out"}};

// The tensors of a stack by their names in the case. Those of mixers are kept by the mixers.
class Stack {
 public:
  Stack(const Case& c, std::string mechanism, std::string options)
      : case_(c), mechanism_(std::move(mechanism)), options_(std::move(options)) {}

  // pre: x + f(LN(x)), and a last norm; post: LN(x + f(x)).
  Tensor operator()(Tensor x) {
    Context context = {.mask = mask_of(case_)};
    for (int64_t i = 0; case_.has(named(i, attends(i) ? "1.to_q.weight" : "1.ff.0.0.weight"));
         ++i) {
      const auto branch = normed(x, named(i, "0.0.gamma"));
      const auto y = attends(i) ? attended(branch, i, context) : fed_forward(branch, i);
      x = normed(x + y, named(i, "0.2.gamma"));
    }
    return normed(x, "final_norm.gamma");
  }

  void expect_gradients() {
    for (const auto& [name, leaf] : leaves_) expect_gradient(case_, name, leaf.grad());
    for (auto& [i, layer] : layers_)
      for (const auto& [ours, theirs] : kProjections)
        expect_gradient(case_, named(i, std::string("1.") + theirs + ".weight"),
                        layer.gradient(std::string(ours) + ".weight"));
  }

 private:
  static std::string named(int64_t i, const std::string& rest) {
    return "layers." + std::to_string(i) + "." + rest;
  }
  bool attends(int64_t i) const { return case_.has(named(i, "1.to_q.weight")); }

  Tensor leaf(const std::string& name) {
    return leaves_.emplace(name, case_.at(name).requires_grad_()).first->second;
  }

  // The gain is 1 + gamma; a norm that the stack does not have changes nothing.
  Tensor normed(const Tensor& x, const std::string& gamma) {
    if (!case_.has(gamma)) return x;
    return at::layer_norm(x, {x.size(-1)}, 1 + leaf(gamma), {}, 1e-5);
  }

  Tensor fed_forward(const Tensor& x, int64_t i) {
    const auto hidden =
        at::gelu(at::linear(x, leaf(named(i, "1.ff.0.0.weight")), leaf(named(i, "1.ff.0.0.bias"))));
    return at::linear(hidden, leaf(named(i, "1.ff.2.weight")), leaf(named(i, "1.ff.2.bias")));
  }

  Tensor attended(const Tensor& x, int64_t i, Context& context) {
    const Site site = {.shape = {.width = x.size(2),
                                 .heads = case_.integer("heads"),
                                 .head_width = case_.integer("dim_head"),
                                 .max_length = x.size(1)},
                       .path = "layers." + std::to_string(i),
                       .layer = static_cast<int64_t>(layers_.size())};
    auto& layer = layers_.try_emplace(i, mechanism_, site, options_).first->second;
    for (const auto& [ours, theirs] : kProjections)
      for (const std::string part : {".weight", ".bias"})
        if (const auto name = named(i, std::string("1.") + theirs + part); case_.has(name))
          layer.set(ours + part, case_.at(name));
    return layer(x, context);
  }

  const Case& case_;
  std::string mechanism_, options_;
  std::map<std::string, Tensor> leaves_;
  std::map<int64_t, Layer> layers_;
};

}  // namespace

// Attention outputs of padded queries are zero there as here, so every row is compared.
void check_stack(const Case& c, const std::string& mechanism, const std::string& options) {
  const auto x = c.at("x").requires_grad_();
  Stack stack(c, mechanism, options);
  expect_output(c, stack(x), {});
  expect_gradient(c, "x", x.grad());
  stack.expect_gradients();
}

}  // namespace longbow::parity
