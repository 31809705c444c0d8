#include "tests/attention/recurrent.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow::oracle {

Tensor both_ways(const Node& options, const Tensor& x, const Context& context, const OneWay& run) {
  const bool own = as_string(*options.find("backward"), "backward") == "own";
  auto y = at::zeros_like(x);
  for (int64_t b = 0; b < x.size(0); ++b) {
    const auto& keep = context.mask.keep;
    const auto real = keep.defined() ? keep[b].nonzero().flatten() : at::arange(x.size(1));
    const auto tokens = x.narrow(0, b, 1).index_select(1, real);
    const auto positions = at::arange(real.size(0)).unsqueeze(0);
    auto row = run("forward.", tokens, positions);
    if (!context.mask.causal)
      row = row + run(own ? "backward." : "forward.", tokens.flip(1), positions.flip(1)).flip(1);
    y[b].index_copy_(0, real, row[0]);
  }
  return y;
}

Tensor projected(const torch::nn::Module& mixer, const std::string& name, const Tensor& x) {
  const auto y = x.matmul(tensor_of(mixer, name + ".weight").t());
  return mixer.named_parameters().contains(name + ".bias") ? y + tensor_of(mixer, name + ".bias")
                                                           : y;
}

Tensor convolved(const torch::nn::Module& mixer, const std::string& name, const Tensor& z) {
  const auto taps = tensor_of(mixer, name + ".weight");  // [C, K]
  const int64_t count = taps.size(1), n = z.size(1);
  auto y = at::zeros_like(z) + tensor_of(mixer, name + ".bias");
  for (int64_t back = 0; back < std::min(count, n); ++back)
    y.narrow(1, back, n - back).add_(z.narrow(1, 0, n - back) * taps.select(1, count - 1 - back));
  return y * at::sigmoid(y);
}

Tensor rms_norm(const Tensor& x, double epsilon) {
  return x / (x.square().mean(-1, true) + epsilon).sqrt();
}

Heads recurrent_heads(const torch::nn::Module& mixer, const std::string& prefix, int64_t heads,
                      const Tensor& x) {
  auto q = projected(mixer, prefix + "query", x), k = projected(mixer, prefix + "key", x),
       v = projected(mixer, prefix + "value", x);
  if (mixer.named_parameters().contains(prefix + "convolution.weight")) {
    const auto all = convolved(mixer, prefix + "convolution", at::cat({q, k, v}, 2));
    const int64_t keys = q.size(2);
    q = all.narrow(2, 0, keys);
    k = all.narrow(2, keys, keys);
    v = all.narrow(2, 2 * keys, v.size(2));
  }
  return {split_heads(q, heads), split_heads(k, heads), split_heads(v, heads), x, x};
}

Tensor recurrent_output(const torch::nn::Module& mixer, const std::string& prefix, const Tensor& o,
                        const Tensor& x, double epsilon) {
  auto y = merge_heads(rms_norm(o, epsilon) * tensor_of(mixer, prefix + "norm.weight"));
  if (mixer.named_parameters().contains(prefix + "gate.weight")) {
    const auto gate = projected(mixer, prefix + "gate", x);
    y = y * gate * at::sigmoid(gate);
  }
  return projected(mixer, prefix + "output", y);
}

}  // namespace longbow::oracle
