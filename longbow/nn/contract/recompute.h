#pragma once
#include <functional>
#include <vector>

#include "longbow/nn/contract/context.h"

namespace longbow {

// Runs body(x, context) without keeping its activations and runs it again in the backward pass.
// Values and gradients are those of the plain call, for x, for what the context carries, and for
// the parameters, also when x itself needs no gradient. The second run sees context.recomputing and
// the same random key and choices.
using Body = std::function<Tensor(const Tensor&, Context&)>;
Tensor recomputed(const Body& body, const Tensor& x, Context& context,
                  const std::vector<Tensor>& parameters);

}  // namespace longbow
