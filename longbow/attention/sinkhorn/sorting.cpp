#include "longbow/attention/sinkhorn/sorting.h"

#include <ATen/ATen.h>

#include <limits>
#include <vector>

#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/doubly_stochastic.h"

namespace longbow {
namespace {

// ln sum exp over what is allowed, 0 where nothing is; gradients are finite everywhere.
Tensor log_sum(const Tensor& x, const Tensor& allowed, int64_t dim) {
  if (!allowed.defined()) return x.logsumexp(dim, true);
  const auto none = allowed.logical_not();
  const auto any = allowed.any(dim, true);
  const auto most = x.detach()
                        .masked_fill(none, -std::numeric_limits<double>::infinity())
                        .amax(dim, true)
                        .masked_fill(any.logical_not(), 0);
  const auto sum = (x - most).masked_fill(none, 0).exp().masked_fill(none, 0).sum(dim, true);
  return (most + sum.masked_fill(any.logical_not(), 1).log()).masked_fill(any.logical_not(), 0);
}

}  // namespace

Tensor sinkhorn_balanced(const Tensor& scores, const Tensor& allowed, int64_t iterations) {
  if (!allowed.defined() && has_doubly_stochastic_kernel(scores))
    return doubly_stochastic(scores, iterations);
  const auto all = allowed.defined() ? allowed.expand_as(scores) : allowed;
  auto x = scores;
  for (int64_t i = 0; i < iterations; ++i) {
    x = x - log_sum(x, all, -1);
    x = x - log_sum(x, all, -2);
  }
  if (!all.defined()) return x.exp();
  return x.masked_fill(all.logical_not(), 0).exp().masked_fill(all.logical_not(), 0);
}

Picked best_sources(const Tensor& scores, const Tensor& allowed, int64_t count,
                    const std::string& site, const Context& context) {
  auto left = allowed.defined() ? allowed.expand_as(scores)
                                : at::ones_like(scores, scores.options().dtype(at::kBool));
  std::vector<Tensor> index, weight, found;
  for (int64_t p = 0; p < count; ++p) {
    const auto weights = masked_softmax(scores, left);
    const auto best =
        context.pick(site + std::to_string(p), [&] { return weights.detach().argmax(-1, true); });
    index.push_back(best);
    weight.push_back(weights.gather(-1, best));
    found.push_back(left.gather(-1, best));
    if (p + 1 < count) left = left.scatter(-1, best, false);
  }
  return {at::cat(index, -1), at::cat(weight, -1), at::cat(found, -1)};
}

}  // namespace longbow
