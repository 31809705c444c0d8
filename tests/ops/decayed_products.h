#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "longbow/ops/decayed_product.h"
#include "tests/support/tensor.h"

namespace longbow {

// Of decayed_product, in float64.
struct DecayedInputs {
  at::Tensor x, y, z, g, sums, dout, dsums;
  DecayedInputs(int64_t b, int64_t h, int64_t n, int64_t p, int64_t q, int64_t decays,
                double strength = 0.1)
      : x(random_normal({b, h, n, p}, 1) + 0.3),
        y(random_normal({b, h, n, p}, 2) + 0.3),
        z(random_normal({b, h, n, q}, 3) + 0.3),
        g(random_normal({b, h, n, decays}, 4).abs() * -strength),
        sums(random_normal({b, h, p, q}, 5)),
        dout(random_normal({b, h, n, q}, 6)),
        dsums(random_normal({b, h, p, q}, 7)) {}
};

// The recurrence, token by token: out, and the sums become those after the last.
inline at::Tensor decayed_recurrence(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                                     const at::Tensor& g, const DecayedProduct& how,
                                     at::Tensor& sums) {
  const auto xs = x.split(1, 2), ys = y.split(1, 2), zs = z.split(1, 2), gs = g.split(1, 2);
  std::vector<at::Tensor> rows(xs.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t t = how.reversed ? rows.size() - 1 - i : i;
    const auto decay = how.fading == Fading::rows
                           ? gs[t].transpose(-2, -1)
                           : gs[t].repeat_interleave(z.size(3) / g.size(3), -1);
    sums = sums * decay.exp() + ys[t].transpose(-2, -1).matmul(zs[t]);
    rows[t] = xs[t].matmul(sums) * how.scale;
  }
  return at::cat(rows, 2);
}

// out, the sums after the last token, and the gradients of x, y, z, g and the first sums; float64,
// on the CPU.
template <class F>
std::vector<at::Tensor> decayed_results(const DecayedInputs& in, const at::TensorOptions& numbers,
                                        const F& product) {
  const auto wide = numbers.dtype(numbers.dtype() == at::kDouble ? at::kDouble : at::kFloat);
  std::vector<at::Tensor> leaves;
  for (const auto& t : {in.x, in.y, in.z}) leaves.push_back(t.to(numbers, false, true));
  for (const auto& t : {in.g, in.sums}) leaves.push_back(t.to(wide, false, true));
  for (auto& leaf : leaves) leaf.requires_grad_();
  auto sums = leaves[4];
  const auto out = product(leaves[0], leaves[1], leaves[2], leaves[3], sums);
  ((out * in.dout.to(out.options())).sum() + (sums * in.dsums.to(sums.options())).sum()).backward();
  std::vector<at::Tensor> found = {out.detach(), sums.detach()};
  for (const auto& leaf : leaves) found.push_back(leaf.grad());
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

// Both directions at once are two calls, whose gradients are added: forth, back, dx, dy, dz and dg,
// of both forms.
inline std::vector<std::vector<at::Tensor>> both_ways(const DecayedInputs& in,
                                                      const at::TensorOptions& numbers,
                                                      DecayedProduct how) {
  std::vector<std::vector<at::Tensor>> found;
  for (const bool at_once : {true, false}) {
    std::vector<at::Tensor> leaves;
    for (const auto& t : {in.x, in.y, in.z}) leaves.push_back(t.to(numbers, false, true));
    leaves.push_back(in.g.to(
        numbers.dtype(numbers.dtype() == at::kDouble ? at::kDouble : at::kFloat), false, true));
    for (auto& leaf : leaves) leaf.requires_grad_();
    const auto one_way = [&](bool reversed) {
      auto directed = how;
      directed.reversed = reversed;
      at::Tensor sums;
      return decayed_product(leaves[0], leaves[1], leaves[2], leaves[3], directed, sums);
    };
    const auto both = at_once ? decayed_products(leaves[0], leaves[1], leaves[2], leaves[3], how)
                              : BothWays{one_way(false), one_way(true)};
    const auto dout = in.dout.to(both.forth.options());
    ((both.forth * dout).sum() + (both.back * dout * 2).sum()).backward();
    found.push_back({both.forth.detach(), both.back.detach()});
    for (const auto& leaf : leaves) found.back().push_back(leaf.grad());
    for (auto& t : found.back()) t = t.cpu().to(at::kDouble);
  }
  return found;
}

}  // namespace longbow
