#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "longbow/data/dataset.h"
#include "longbow/data/sampler.h"

namespace longbow {

struct Batch {
  at::Tensor tokens = {};   // [B, N] int64, 0 where there is none
  at::Tensor lengths = {};  // [B] int64
  at::Tensor targets = {};  // [B] int64, or [B, N] with kIgnore where there is none
  int64_t samples = 0, real_tokens = 0;
  SamplerPosition after = {};  // seek here to continue behind this batch
  int64_t epoch = 0;
};

Batch collate(const Dataset& dataset, const Plan& plan);

}  // namespace longbow
