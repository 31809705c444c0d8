#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "longbow/data/feed/sampler.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

// What a sample may lack is undefined when the data set has none of it.
struct Batch {
  at::Tensor tokens = {};          // [B, N] int64, 0 where there is none
  at::Tensor lengths = {};         // [B] int64
  at::Tensor targets = {};         // [B] or [B, K] int64; or [B, N], kIgnore where there is none
  at::Tensor second = {};          // [B, N] int64, like tokens
  at::Tensor second_lengths = {};  // [B] int64
  at::Tensor segments = {};        // [B, N] int64
  at::Tensor values = {};          // [B, K] float32
  std::vector<std::string> references = {};  // of every sample, or none
  int64_t samples = 0, real_tokens = 0;
  bool padded = true;          // false: every row of `tokens` is full, and no mask is needed
  SamplerPosition after = {};  // seek here to continue behind this batch
  int64_t epoch = 0;
  bool first = false;  // of its epoch

  Batch to(at::Device device) const;  // without waiting for the copies, of pinned memory
  Batch pinned() const;
  // The tensors above that are defined, in that order.
  std::vector<at::Tensor*> tensors();
};

Batch collate(const Dataset& dataset, const Plan& plan);

}  // namespace longbow
