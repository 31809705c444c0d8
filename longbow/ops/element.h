#pragma once
#include <ATen/core/Tensor.h>

#include "longbow/kernels/element.h"

namespace longbow {

inline kernels::Element element_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kDouble:
      return kernels::Element::float64;
    case at::kFloat:
      return kernels::Element::float32;
    case at::kBFloat16:
      return kernels::Element::bfloat16;
    case at::kHalf:
      return kernels::Element::float16;
    default:
      TORCH_CHECK(false, "no kernel for ", x.scalar_type());
  }
}

}  // namespace longbow
