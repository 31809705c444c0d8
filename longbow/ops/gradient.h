#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace longbow {

// Whether an operator must note how to differentiate: one of its inputs asks for it. Without that,
// the kernel is called directly and saves nothing.
template <class... Tensors>
bool wants_gradient(const Tensors&... inputs) {
  return at::GradMode::is_enabled() && ((inputs.defined() && inputs.requires_grad()) || ...);
}

}  // namespace longbow
