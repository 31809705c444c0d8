#include "longbow/nn/contract/part.h"

#include "longbow/nn/contract/linear.h"

namespace longbow {

Tensor Part::parameter(const std::string& name, const Tensor& value, Hint hint) {
  hints_[name] = hint;
  return register_parameter(name, value);
}

std::shared_ptr<Linear> Part::linear(const Site& site, const std::string& name, int64_t in,
                                     int64_t out) {
  return register_module(name, std::make_shared<Linear>(site.at(name), in, out, site.bias));
}

}  // namespace longbow
