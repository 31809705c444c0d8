#pragma once
// Tokens by bucket; ops/bucket_orders.h defines it.
#include <cstdint>

namespace longbow::kernels {

struct BucketOrders {
  static constexpr int kMostBuckets = 1025;
  const int64_t* bucket;     // [lines, tokens]
  int64_t *order, *inverse;  // [lines, tokens]; the latter may be null
  int64_t* ends;             // [lines, buckets]: where the tokens of each bucket end, or null
  int64_t lines, tokens;
  int buckets, least;  // the first bucket has the number `least`
};

void bucket_orders_cuda(const BucketOrders& task, void* stream) noexcept;

}  // namespace longbow::kernels
