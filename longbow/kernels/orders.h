#pragma once
// Tokens in several orders at once; ops/orders.h defines it. Numbers are bfloat16 or float16, sums
// float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct TokenOrders {
  Element type;
  int64_t batch, heads, orders, tokens, places, width;  // a multiple of 8 up to 256
  const int64_t *order, *inverse;                       // [B, H, orders, tokens]
};

// To rows [B, H, orders, places, width], or back: the sum over orders.
struct InOrders {
  TokenOrders of;
  HeadRows x;
  void* rows;
};
struct InOrdersBackward {
  TokenOrders of;
  const void* rows;
  HeadResults dx;
  // Where `all` [B, H, tokens] is -infinity, a row of `more` is added; null where none is.
  const float* all;
  HeadRows more;
};

struct JoinOrders {
  TokenOrders of;
  const void* parts;     // [B, H, orders, places, width]
  const float* log_sum;  // [B, H, orders, places]
  HeadResults out;
  float* all;    // [B, H, tokens]
  HeadRows own;  // what a token reads that saw nothing; null: zeros
};
// Places behind the tokens are not written.
struct JoinOrdersBackward {
  TokenOrders of;
  const void* parts;
  const float* log_sum;
  HeadRows dout;
  const float* dall;
  void* dparts;
  float* dlog_sum;
};

void in_orders_cuda(const InOrders& task, void* stream) noexcept;
void in_orders_backward_cuda(const InOrdersBackward& task, void* stream) noexcept;
void join_orders_cuda(const JoinOrders& task, void* stream) noexcept;
void join_orders_backward_cuda(const JoinOrdersBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
