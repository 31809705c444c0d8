#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// exp(g_{j+1} + … + g_i) for j <= i, zero above: [..., C, C] of g <= 0 [..., C, 1]. Sums from j on,
// not differences of sums from the start, so that what follows a large decay is exact.
at::Tensor chunk_decays(const at::Tensor& g);

}  // namespace longbow
