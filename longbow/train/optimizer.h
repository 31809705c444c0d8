#pragma once
#include <memory>

#include "longbow/core/fields.h"
#include "longbow/train/weights.h"

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

// Clips the gradients and moves the weights. What changes from step to step comes as tensors on
// the device, so that a captured step can be replayed.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One step. Gradients are multiplied by `scale` first, clipped, used and cleared; the norm before
  // clipping is returned. A step whose gradients are not finite changes nothing when
  // `skip_overflow`.
  Tensor step(const Tensor& learning_rate, const Tensor& scale, bool skip_overflow = false);
  Tensors state() const;  // by weight name, for a checkpoint
  void load(const Tensors& state);

 protected:
  // Weights that are treated alike.
  struct Group {
    double decay, max_learning_rate;
    std::vector<std::string> names;
    std::vector<Tensor> values, gradients;
    std::map<std::string, std::vector<Tensor>> kept;  // one tensor a weight, saved and loaded
  };
  Optimizer(const std::vector<Weight>& weights, const OptimizerConfig& config);
  // `skip` is 1 where nothing may change, or undefined.
  virtual void update(Group& group, const Tensor& learning_rate, const Tensor& skip) = 0;
  OptimizerConfig config_;
  std::vector<Group> groups_;
};

// The one that the config names.
std::unique_ptr<Optimizer> make_optimizer(const std::vector<Weight>& weights,
                                          const OptimizerConfig& config);

}  // namespace longbow
