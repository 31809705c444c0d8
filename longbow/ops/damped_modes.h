#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Modes of damped averages, in float32 at least: with p = sigmoid(delta) and q = sigmoid(alpha),
//   rate = max(log(1 - p q), fastest),   weight = p beta eta factor,
// of the first `rows` rows of the parameters, all [G, K] -> [rows, K].
struct DampedModes {
  at::Tensor rate, weight;
};
struct DampedAverage {
  at::Tensor delta, alpha, beta, eta;
};
DampedModes damped_modes(const DampedAverage& average, int64_t rows, double factor, double fastest);

// The same in ATen alone, and the gradients of the parameters.
DampedModes damped_modes_formula(const DampedAverage& average, int64_t rows, double factor,
                                 double fastest);
DampedAverage damped_modes_formula_backward(const DampedModes& gradient,
                                            const DampedAverage& average, double factor,
                                            double fastest);

}  // namespace longbow
