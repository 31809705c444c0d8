#include "longbow/nn/contract/part.h"

namespace longbow {

Tensor Part::parameter(const std::string& name, const Tensor& value, Hint hint) {
  hints_[name] = hint;
  return register_parameter(name, value);
}

Tensor Part::exact_buffer(const std::string& name, const Tensor& value) {
  exact_.insert(name);
  return register_buffer(name, value);
}

}  // namespace longbow
