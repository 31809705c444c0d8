#pragma once
// Positive random features on a GPU, as exponential_rows.h has them on a CPU, of tokens of one head
// at a time.
#include <cstdint>

namespace longbow::kernels {

struct ExponentialFeatures {
  const void* x;                     // [batch, heads, tokens, width]
  int64_t x_batch, x_head, x_token;  // from one to the next
  bool half;                         // x is bfloat16, else float32
  const float* omega;                // [1 or heads, rows, width]
  int64_t omega_head;                // from head to head, 0 where all have the same
  bool mirrored;                     // features of the rows and then of their negatives
  float scale;
  const bool* keep;  // [batch, tokens] or null
  float* phi;        // [batch, heads, tokens, features]
  float* peaks;      // [batch, heads, tokens], at least -1e30
  int64_t batch, heads, tokens, width, rows;
};
constexpr int64_t kMostExponentialWidth = 1024;

void exponential_features_cuda(const ExponentialFeatures& task, void* stream) noexcept;

}  // namespace longbow::kernels
