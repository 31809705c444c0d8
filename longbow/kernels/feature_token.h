#pragma once
// One token of ops/feature_token.h, as decoding takes it: the sums are read and written once. A
// block has those of one head, and each of its threads one column of some of their rows.
#include <cstdint>

namespace longbow::kernels {

struct FeatureToken {
  struct Rows {
    const void* data;     // [batch, heads, numbers]
    int64_t batch, head;  // from one to the next
  };
  Rows q, k, v, key_peak;      // features of float32, values, and a number or null
  bool half;                   // v is bfloat16, else float32
  const float *before, *peak;  // [batch heads, features, width + 1], [batch heads] or null
  float *out, *after, *most;   // [batch heads, width + 1]; as `before`; as `peak`
  int64_t batch, heads, features, width;
};
// Both rows of features and some of partial sums have to stay in shared memory.
constexpr int64_t kMostTokenFeatures = 4096, kMostTokenWidth = 256;

void feature_token_cuda(const FeatureToken& task, void* stream) noexcept;

}  // namespace longbow::kernels
