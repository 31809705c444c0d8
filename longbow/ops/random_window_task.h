#pragma once
// What the registrations of random_window share: arguments as the dispatcher gives them.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "longbow/ops/random_window_formula.h"

namespace longbow {

using WindowForward = std::tuple<at::Tensor, at::Tensor>;  // out, and what the device keeps
using WindowBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

RandomWindow random_window_of(const at::Tensor& omega, const std::optional<at::Tensor>& keep,
                              bool mirrored, double scale, int64_t back, int64_t ahead,
                              bool causal);

}  // namespace longbow
