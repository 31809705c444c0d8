#include "longbow/ops/head_parts.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "longbow/ops/in_parallel.h"

namespace longbow {

using at::Tensor;

at::ScalarType type_of_sums(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor readable_rows(const Tensor& x) {
  const auto wide = x.to(type_of_sums(x));
  return wide.stride(3) == 1 ? wide : wide.contiguous();
}

int64_t parts_of_heads(const Tensor& x, int64_t tiles) {
  const int64_t heads = std::max<int64_t>(x.size(0) * x.size(1), 1);
  return std::clamp<int64_t>((at::get_num_threads() + heads - 1) / heads, 1,
                             std::max<int64_t>(tiles, 1));
}

void each_part(const Tensor& x, int64_t parts, int64_t tiles, int64_t work,
               const std::function<void(const HeadPart&)>& body) {
  const int64_t heads = x.size(1);
  if (parts == 0) return;
  in_parallel(x.size(0) * heads * parts, work * tiles / parts, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to;) {
      const int64_t part = i % parts, both = i / parts, end = std::min(parts, part + to - i);
      body({both / heads, both % heads, part, part * tiles / parts, end * tiles / parts});
      i += end - part;
    }
  });
}

}  // namespace longbow
