#include "longbow/ops/chunk_decays.h"

#include <ATen/ATen.h>

namespace longbow {

at::Tensor chunk_decays(const at::Tensor& g) {
  auto square = g.sizes().vec();
  square.back() = g.size(-2);
  return g.expand(square).tril(-1).cumsum(-2).exp().tril();
}

}  // namespace longbow
