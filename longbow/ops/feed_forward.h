#pragma once
#include "longbow/ops/feed_forward_formula.h"

namespace longbow {

// The layer in one call.
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardLayer& layer);

// Whether a GPU does it in one pass: in half types, at widths of 64 and 128 and as many units as
// fit on chip. There x is all that is kept for the backward pass, and there is no second
// derivative.
bool has_feed_forward_kernel(const at::Tensor& x, const FeedForwardLayer& layer);

}  // namespace longbow
