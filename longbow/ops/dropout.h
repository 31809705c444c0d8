#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x / (1 - rate) where philox_uniform(key, site, x.sizes()) is at least rate, and 0 elsewhere. The
// numbers are drawn again in the backward pass, so that nothing is stored; `key` must not have
// changed by then.
at::Tensor philox_dropout(const at::Tensor& x, const at::Tensor& key, uint64_t site, double rate);

// Which elements are dropped, if any.
struct Drop {
  double rate = 0;
  at::Tensor key = {};
  uint64_t site = 0;
};
// x + philox_dropout(y): one pass on a GPU.
at::Tensor add_dropped(const at::Tensor& x, const at::Tensor& y, const Drop& drop);

}  // namespace longbow
