#pragma once
#include "longbow/nn/contract/site.h"

namespace longbow {

// The normal part of HiPPO-LegS over n states, S = A + q q^T with q_i = sqrt(i + 1/2), is
// diagonal in a unitary basis: S = V diag(-1/2 + i w) V*. One of each conjugate pair, w > 0, in
// float64.
struct HippoModes {
  Tensor frequencies;  // w [n / 2], rising
  Tensor vectors;      // V [n, n / 2] complex; the largest component of each is real and positive
};
HippoModes hippo_modes(int64_t states);

// Logarithms of numbers between two bounds, uniform: first steps of a continuous system.
Tensor initial_log_uniform(const Site& site, const std::string& name, at::IntArrayRef shape,
                           double least, double largest);

}  // namespace longbow
