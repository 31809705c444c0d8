#include "longbow/nn/layers/past_rows.h"

#include <ATen/ATen.h>

namespace longbow {

void open_past_rows(State& state, const std::string& name, int64_t lanes, int64_t past,
                    int64_t width, const at::TensorOptions& options) {
  state.add(name, {lanes, past, width}, options.requires_grad(false));
}

Tensor grow_past_rows(State& state, const std::string& name, const Tensor& rows,
                      const Context& context) {
  auto& last = state.lane.at(name);
  const int64_t past = last.size(1), tokens = rows.size(1);
  const auto all = at::cat({last, rows.to(last.scalar_type())}, 1);
  const auto& keep = context.mask.keep;
  if (!keep.defined()) {
    last = all.narrow(1, tokens, past);
    return all;
  }
  const auto index = keep.sum(1, true) + at::arange(past, keep.options().dtype(at::kLong));
  last = all.gather(1, index.unsqueeze(-1).expand({-1, -1, rows.size(2)}));
  return all;
}

}  // namespace longbow
