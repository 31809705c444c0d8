#pragma once
#include <functional>
#include <vector>

#include "longbow/nn/contract/context.h"

namespace longbow {

// Runs body(x, context) without keeping its activations and runs it again in the backward pass.
// Values and gradients are those of the plain call, for x, for what the context carries, and for
// the parameters, also when x itself needs no gradient. The second run sees context.recomputing and
// the same random key and choices; attention maps are those of the first run.
using Body = std::function<Tensor(const Tensor&, Context&)>;
Tensor recomputed(const Body& body, const Tensor& x, Context& context,
                  const std::vector<Tensor>& parameters);

// What a body finds in its context in place of objects of the caller, who may be gone by the second
// run: the choices of the first run, and maps that are thrown away, since who asks for maps may
// take another way through a mechanism.
class Rerun {
 public:
  void before_first(Context& context);
  void after_first(const Context& given);  // the caller's context
  void before_second(Context& context);

 private:
  Choices choices_;
  Tensors maps_;
};

}  // namespace longbow
