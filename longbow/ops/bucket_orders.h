#pragma once
#include "longbow/ops/orders.h"

namespace longbow {

// Tokens by bucket, those of one as they stand: bucket [..., N] int64 in 0 ... buckets - 1. Both
// orders are int64 and have no gradient.
Orders bucket_orders(const at::Tensor& bucket, int64_t buckets);

Orders bucket_orders_formula(const at::Tensor& bucket, int64_t buckets);

}  // namespace longbow
