#include "tests/support/relative.h"

#include <ATen/ATen.h>

namespace longbow::oracle {

Tensor relative_scores(const torch::nn::Module& mixer, const Node& options, const Site& site,
                       const Tensor& q, const Tensor& keys, const Tensor& distances) {
  const int64_t width = site.shape.width, clamp = as_integer(*options.find("clamp"), "clamp");
  const bool shared = as_boolean(*options.find("shared"), "shared") && site.shared;
  const auto bias = [&](const std::string& name) {
    return shared ? tensor_of(*site.shared, "relative_" + name)
                  : tensor_of(mixer, "relative." + name);
  };
  const auto d = clamp > 0 ? distances.clamp_max(clamp) : distances;
  const auto f =
      at::pow(10000.0, at::arange(width / 2, at::kDouble) * (-2.0 / static_cast<double>(width)));
  const auto angle = d.to(at::kDouble).unsqueeze(1) * f;
  const auto r = at::cat({angle.sin(), angle.cos()}, 1)
                     .matmul(tensor_of(mixer, "relative.position.weight").t())
                     .unflatten(-1, {site.shape.heads, -1})
                     .transpose(0, 1)
                     .unsqueeze(0);  // [1, H, M, D]
  const auto product = [](const Tensor& a, const Tensor& b) {
    return (a.unsqueeze(2) * b).sum(-1);
  };
  return (product(q + bias("u"), keys) + product(q + bias("v"), r)) /
         std::sqrt(static_cast<double>(q.size(-1)));
}

}  // namespace longbow::oracle
