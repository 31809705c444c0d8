#pragma once
// Modules with hints for the optimiser.
#include <set>

#include "longbow/nn/contract/site.h"

namespace longbow {

// A module that can say how the optimiser should treat its parameters and that may act after a
// step.
struct Hint {
  bool decay = true;
  double max_learning_rate = 0;  // 0 = no limit
};
class Linear;
class Part : public torch::nn::Module {
 public:
  const std::map<std::string, Hint>& hints() const { return hints_; }
  const std::set<std::string>& exact_buffers() const { return exact_; }
  // Redraw features, move centroids: in place, outside the graph, never in evaluation.
  virtual void after_step(int64_t /*step*/) {}

 protected:
  Tensor parameter(const std::string& name, const Tensor& value, Hint hint = {});
  // One that a model which computes in a half type keeps in float32: small changes add up in it, or
  // discrete choices depend on it.
  Tensor exact_buffer(const std::string& name, const Tensor& value);
  // A projection of an attention, registered under its name; its bias is as the site says.
  std::shared_ptr<Linear> linear(const Site& site, const std::string& name, int64_t in,
                                 int64_t out);

 private:
  std::map<std::string, Hint> hints_;
  std::set<std::string> exact_;
};

}  // namespace longbow
