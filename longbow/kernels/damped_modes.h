#pragma once
// Modes of damped averages, number by number; ops/damped_modes.h defines them. Parameters are of
// one type, modes float32.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

struct DampedModes {
  Element type;        // float32, bfloat16 or float16
  int64_t count, all;  // modes, and parameters of each kind
  const void *delta, *alpha, *beta, *eta;
  float factor, fastest;
  float *rate, *weight;  // [count]
};
struct DampedModesBackward {
  DampedModes past;  // its results are not read
  const float *drate, *dweight;
  void *ddelta, *dalpha, *dbeta, *deta;  // [all], zero behind the modes
};

void damped_modes_cuda(const DampedModes& task, void* stream) noexcept;
void damped_modes_backward_cuda(const DampedModesBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
