#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "longbow/ops/state_space.h"
#include "tests/support/tensor.h"

namespace longbow {

// Of state_space, in float64.
struct StateSpaceInputs {
  at::Tensor rows, step, log_decay, skip, sums, dout, dsums;
  StateSpace how;
  StateSpaceInputs(int64_t tokens, int64_t heads, int64_t width, const StateSpace& of)
      : rows(random_normal({2, tokens, heads * width + 2 * of.groups * of.state}, 1) + 0.3),
        step(random_normal({2, tokens, heads}, 2).abs()),
        log_decay(random_normal({2, tokens, heads}, 3).abs() * -0.1),
        skip(random_normal({heads}, 4)),
        sums(random_normal({2, of.groups, of.state, heads * width / of.groups}, 5)),
        dout(random_normal({2, tokens, heads * width}, 6)),
        dsums(random_normal(sums.sizes(), 7)),
        how(of) {}
};

// The recurrence, head by head and token by token.
inline at::Tensor state_space_recurrence(const at::Tensor& rows, const at::Tensor& step,
                                         const at::Tensor& log_decay, const at::Tensor& skip,
                                         const StateSpace& how, at::Tensor& sums) {
  const int64_t tokens = rows.size(1), heads = step.size(2), n = how.state,
                inner = rows.size(2) - 2 * how.groups * n, width = inner / heads;
  std::vector<at::Tensor> out(static_cast<size_t>(tokens)), last;
  std::vector<std::vector<at::Tensor>> read(static_cast<size_t>(tokens));
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t group = h / (heads / how.groups), column = h % (heads / how.groups) * width;
    auto state = sums.select(1, group).narrow(2, column, width);  // [B, n, P]
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t t = how.reversed ? tokens - 1 - i : i;
      const auto token = rows.select(1, t);
      const auto x = token.narrow(1, h * width, width), b = token.narrow(1, inner + group * n, n),
                 c = token.narrow(1, inner + (how.groups + group) * n, n);
      const auto of_head = [&](const at::Tensor& all) {
        return all.select(1, t).narrow(1, h, 1).unsqueeze(-1);
      };
      state = of_head(log_decay).exp() * state + b.unsqueeze(-1) * (of_head(step) * x.unsqueeze(1));
      read[static_cast<size_t>(t)].push_back((c.unsqueeze(-1) * state).sum(1) + skip[h] * x);
    }
    last.push_back(state);
  }
  for (size_t t = 0; t < out.size(); ++t) out[t] = at::cat(read[t], 1);
  std::vector<at::Tensor> groups;
  const auto each = static_cast<size_t>(heads / how.groups);
  for (size_t g = 0; g < static_cast<size_t>(how.groups); ++g)
    groups.push_back(
        at::cat(std::vector(last.begin() + static_cast<std::ptrdiff_t>(g * each),
                            last.begin() + static_cast<std::ptrdiff_t>((g + 1) * each)),
                2));
  sums = at::stack(groups, 1);
  return at::stack(out, 1);
}

// out, the sums after the last token, and all gradients; float64, on the CPU.
template <class F>
std::vector<at::Tensor> state_space_results(const StateSpaceInputs& in,
                                            const at::TensorOptions& numbers, const F& product) {
  const auto wide = numbers.dtype(numbers.dtype() == at::kDouble ? at::kDouble : at::kFloat);
  std::vector<at::Tensor> leaves = {in.rows.to(numbers, false, true)};
  for (const auto& t : {in.step, in.log_decay, in.skip, in.sums})
    leaves.push_back(t.to(wide, false, true));
  for (auto& leaf : leaves) leaf.requires_grad_();
  auto sums = leaves[4];
  const auto out = product(leaves[0], leaves[1], leaves[2], leaves[3], in.how, sums);
  ((out * in.dout.to(out.options())).sum() + (sums * in.dsums.to(sums.options())).sum()).backward();
  std::vector<at::Tensor> found = {out.detach(), sums.detach()};
  for (const auto& leaf : leaves) found.push_back(leaf.grad());
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

}  // namespace longbow
