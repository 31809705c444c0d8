#include "longbow/nn/contract/alignment.h"

#include <ATen/ATen.h>

namespace longbow {

Alignment::Alignment(const Tensor& keep)
    : order_(at::argsort(keep.logical_not(), /*stable=*/true, /*dim=*/1, /*descending=*/false)),
      back_(at::argsort(order_, /*stable=*/true, /*dim=*/1, /*descending=*/false)) {}

Tensor Alignment::moved(const Tensor& x, const Tensor& order) {
  if (!x.defined()) return x;
  return x.dim() == 2 ? x.gather(1, order) : x.gather(1, order.unsqueeze(-1).expand_as(x));
}

Tensor Alignment::places(const Tensor& before) const {
  if (!before.defined()) return before;
  return back_.gather(1, before.clamp_min(0)).masked_fill(before < 0, -1);
}

}  // namespace longbow
