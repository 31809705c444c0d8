#pragma once
// Buckets by signed maxima; ops/turned_buckets.h defines it.
#include <cstdint>

namespace longbow::kernels {

struct TurnedBuckets {
  static constexpr int kMostFactors = 8;
  const float* y;  // [rows, columns]
  int64_t* bucket;
  int64_t rows, columns;
  int factors, factor[kMostFactors];
};

void turned_buckets_cuda(const TurnedBuckets& task, void* stream) noexcept;

}  // namespace longbow::kernels
