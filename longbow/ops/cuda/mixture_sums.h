#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "longbow/kernels/slot_mixture.h"

namespace longbow {

// Gradients of keys, values and biases, without their shapes.
struct MixtureSums {
  at::Tensor keys, values, bias;
};
// Gives the task room for the sums of all spans, launches it, and adds them up in one order.
MixtureSums mixture_sums(kernels::SlotMixtureBackward& task, const at::Tensor& like,
                         const std::function<void(void*)>& launch);

}  // namespace longbow
