#include "longbow/nn/contract/part.h"

namespace longbow {

Tensor Part::parameter(const std::string& name, const Tensor& value, Hint hint) {
  hints_[name] = hint;
  return register_parameter(name, value);
}

}  // namespace longbow
