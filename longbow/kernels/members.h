#pragma once
// Rows of the members of clusters; ops/members.h defines them. Numbers are bfloat16 or float16,
// sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct Members {
  Element type;
  int64_t batch, heads, tokens, width;  // a multiple of 8 up to 256
  int64_t clusters, members;            // members of all clusters
  const int64_t* token;                 // [B, H, members]
  const int32_t* place;                 // [B, H, clusters, tokens]
  // Rows are divided by the number of clusters of their token: by at least 1, or by `added` more.
  bool divides;
  float added;
  HeadRows from;   // of tokens, or of members
  HeadResults to;  // of members, or of tokens
};

void take_members_cuda(const Members& task, void* stream) noexcept;
void sum_members_cuda(const Members& task, void* stream) noexcept;

}  // namespace longbow::kernels
