#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <vector>

#include "longbow/ops/feed_forward.h"
#include "tests/support/tensor.h"

namespace longbow {

// Numbers for a feed-forward layer, rounded to a type, as float64.
struct FedInputs {
  at::Tensor x, dy;
  std::vector<at::Tensor> weights;

  FedInputs(int64_t tokens, int64_t width, int64_t units, at::ScalarType type) {
    const auto draw = [&](at::IntArrayRef sizes, uint64_t seed, double deviation, double mean) {
      return (random_normal(sizes, seed) * deviation + mean).to(type).to(at::kDouble);
    };
    const double of_width = 1 / std::sqrt(static_cast<double>(width)),
                 of_units = 1 / std::sqrt(static_cast<double>(units));
    x = draw({2, tokens, width}, 1, 1, 0.3);
    dy = draw({2, tokens, width}, 2, 1, 0);
    weights = {draw({width}, 3, 0.3, 1),
               draw({width}, 4, 0.3, 0),
               draw({units, width}, 5, of_width, 0),
               draw({units}, 6, 0.3, 0),
               draw({width, units}, 7, of_units, 0),
               draw({width}, 8, 0.3, 0)};
  }
  static at::Tensor own(const at::Tensor& x, const at::TensorOptions& options) {
    return x.to(options, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
  }
  static std::vector<const char*> names() {
    return {"y", "dx", "dnorm_weight", "dnorm_bias", "dup", "dup_bias", "ddown", "ddown_bias"};
  }
  FeedForwardLayer layer(const at::TensorOptions& options, kernels::Curve curve,
                         double rate) const {
    const auto t = [&](size_t i) { return own(weights[i], options); };
    return {.norm_weight = t(0),
            .norm_bias = t(1),
            .up = t(2),
            .up_bias = t(3),
            .down = t(4),
            .down_bias = t(5),
            .curve = curve,
            .drop = {rate, at::tensor({11, 3}, at::kLong).to(options.device()), 5}};
  }
  // y and all gradients, as float64 on the CPU.
  std::vector<at::Tensor> results(
      const at::TensorOptions& options, kernels::Curve curve, double rate,
      const std::function<at::Tensor(const at::Tensor&, const FeedForwardLayer&)>& feed) const {
    const auto given = own(x, options);
    const auto all = layer(options, curve, rate);
    const auto y = feed(given, all);
    y.backward(dy.to(options));
    std::vector<at::Tensor> found = {y.detach(), given.grad()};
    for (const auto& weight :
         {all.norm_weight, all.norm_bias, all.up, all.up_bias, all.down, all.down_bias})
      found.push_back(weight.grad());
    for (auto& t : found) t = t.cpu().to(at::kDouble);
    return found;
  }
};

}  // namespace longbow
