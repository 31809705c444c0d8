#pragma once
// The delta rule, ops/delta_product.h, in chunks of 64 tokens. Within a chunk what is written
// solves
//   (I + M) U = beta (V - e^G K S),   M_ij = beta_i e^(G_i - G_j) k_i . k_j for j < i,
// with the sums S before it: the inverses T = (I + M)^-1 beta of all chunks are formed at once,
// then one walk over the chunks gives U and the sums, and all tokens read them. Backward the walk
// goes from the last chunk to the first. Numbers are bfloat16, and so are T and the sums at the
// ends of chunks, which tensor cores read so anyway; sums within the walks, decays and their sums
// are float32.
#include <cstdint>

#include "longbow/kernels/feature_product.h"

namespace longbow::kernels {

constexpr int64_t kDeltaChunk = 64, kDeltaWidth = 64;  // D: rows and columns of the sums, padded

// Numbers [B, H, tokens] of float32.
struct TokenNumbers {
  float* data = nullptr;
  int64_t batch = 0, head = 0, token = 0;
};

struct DeltaHeads {
  ByHead q, k;
  TokenNumbers beta, log_decay;  // log_decay.data null = nothing fades
  float scale;                   // of what is read
  int64_t batch, heads, tokens, width, depth;
  void* inverses;  // T: [B H, chunks, 64, 64]
  float* decays;   // [B H, chunks, 64]: logarithms to base 2, added up within a chunk
  int64_t chunks() const { return (tokens + kDeltaChunk - 1) / kDeltaChunk; }
};

// U and the sums before each chunk and after the last.
struct DeltaWalk {
  DeltaHeads heads;
  ByHead v, u;
  void* sums;          // [B H, chunks + 1, D, D]
  const float* first;  // [B H, width, depth] or null
  float* last;         // [B H, width, depth]
};

struct DeltaRead {
  DeltaHeads heads;
  ByHead u, out;
  const void* sums;
};

// dv, and the gradients of the sums: those after each chunk, and before the first.
struct DeltaWalkBack {
  DeltaHeads heads;
  ByHead dout, dv;
  void* dsums;         // [B H, chunks + 1, D, D]
  const float* first;  // of the sums after the last token
  float* last;
};

struct DeltaGradient {
  DeltaHeads heads;
  ByHead v, u, dout, dv;
  const void *sums, *dsums;
  ByHead dq, dk;
  TokenNumbers dbeta, dlog_decay;
};

// Of one direction, or of two of the same sizes at once: a walk alone leaves most of a GPU idle.
template <class Task>
struct DeltaWays {
  Task way[2];
  int count;
};

// The inverses and the decays.
void delta_inverse_cuda(const DeltaWays<DeltaHeads>& tasks, void* stream) noexcept;
void delta_walk_cuda(const DeltaWays<DeltaWalk>& tasks, void* stream) noexcept;
void delta_read_cuda(const DeltaWays<DeltaRead>& tasks, void* stream) noexcept;
void delta_walk_back_cuda(const DeltaWays<DeltaWalkBack>& tasks, void* stream) noexcept;
void delta_gradient_cuda(const DeltaWays<DeltaGradient>& tasks, void* stream) noexcept;

}  // namespace longbow::kernels
