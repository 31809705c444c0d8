#pragma once
#include <torch/nn/module.h>

#include "longbow/core/fields.h"
#include "longbow/nn/site.h"

namespace longbow {

struct OptimizerConfig {
  double learning_rate = 1e-3, weight_decay = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double clip = 1;
};
template <class V>
void fields(V& v, OptimizerConfig& c) {
  v("learning_rate", c.learning_rate, "peak learning rate", above(0));
  v("weight_decay", c.weight_decay, "decoupled decay of matrices; biases and norms have none",
    at_least(0));
  v("beta1", c.beta1, "decay of the gradient mean", range(0, 0.999999));
  v("beta2", c.beta2, "decay of the squared gradient mean", range(0, 0.999999));
  v("epsilon", c.epsilon, "added to the root of the squared mean", above(0));
  v("clip", c.clip, "largest global gradient norm; 0 = no clipping", at_least(0));
}

// AdamW in LibTorch's fused form, one call per group of parameters with the same decay and rate
// limit.
class AdamW {
 public:
  AdamW(torch::nn::Module& model, const OptimizerConfig& config);
  // One step at this learning rate; returns the gradient norm before clipping. Gradients are
  // cleared.
  Tensor step(double learning_rate);
  Tensors state() const;  // by parameter name, for a checkpoint
  void load(const Tensors& state);

 private:
  struct Group {
    double decay, max_learning_rate;
    std::vector<std::string> names;
    std::vector<Tensor> parameters, means, squares, steps;
  };
  OptimizerConfig config_;
  std::vector<Group> groups_;
};

}  // namespace longbow
