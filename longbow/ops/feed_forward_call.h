#pragma once
// A feed-forward layer as the dispatcher takes it: weights in the order of the struct's.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <vector>

#include "longbow/ops/feed_forward.h"

namespace longbow {

using Gradients = std::tuple<at::Tensor, std::vector<at::Tensor>>;  // of x, of the weights

FeedForwardLayer feed_forward_layer(at::TensorList weights, const std::optional<at::Tensor>& key,
                                    int64_t site, double rate, double epsilon, int64_t curve);

}  // namespace longbow
