#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/train/optimizers/weights.h"

namespace longbow {

enum class Method {
  adamw,
  adam,
  sgd,
  adafactor,
  adafactor_transformers,
  rmsprop,
  adagrad,
  nadam,
  radam
};
constexpr std::array<std::string_view, 9> names_of(Method) {
  return {"adamw",   "adam",    "sgd",   "adafactor", "adafactor_transformers",
          "rmsprop", "adagrad", "nadam", "radam"};
}

struct SgdConfig {
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};
template <class V>
void fields(V& v, SgdConfig& c) {
  v("momentum", c.momentum, "momentum factor", range(0, 0.999999));
  v("dampening", c.dampening, "fraction of each gradient that is not added to the momentum",
    range(0, 1));
  v("nesterov", c.nesterov, "Nesterov momentum");
}

struct AdafactorConfig {
  double decay_exponent = -0.8, epsilon = 0, smallest_scale = 1e-3, threshold = 1, beta1 = 0;
  bool scale_parameter = true, relative_step = false, warmup_init = false;
};
template <class V>
void fields(V& v, AdafactorConfig& c) {
  v("decay_exponent", c.decay_exponent, "the decay of the mean square is 1 - step^exponent",
    range(-1, 0));
  v("epsilon", c.epsilon,
    "lower bound of the root mean square, 0 = the epsilon of the type; transformers: added to the "
    "squares, 0 = 1e-30",
    at_least(0));
  v("smallest_scale", c.smallest_scale,
    "lower bound of the parameter scale that multiplies the learning rate", at_least(0));
  v("threshold", c.threshold, "largest root mean square of an update, before the learning rate",
    above(0));
  v("beta1", c.beta1, "transformers: decay of the moving average of updates; 0 = none",
    range(0, 0.999999));
  v("scale_parameter", c.scale_parameter,
    "transformers: multiply the learning rate by the scale of the parameter");
  v("relative_step", c.relative_step,
    "transformers: the learning rate is min(0.01, 1 / sqrt(step)); learning_rate and its decay are "
    "not used");
  v("warmup_init", c.warmup_init, "transformers: the 0.01 of relative_step is 1e-6 times the step");
}

struct RmspropConfig {
  double alpha = 0.99, momentum = 0;
  bool centered = false;
};
template <class V>
void fields(V& v, RmspropConfig& c) {
  v("alpha", c.alpha, "decay of the moving average of squared gradients", range(0, 0.999999));
  v("momentum", c.momentum, "momentum factor", range(0, 0.999999));
  v("centered", c.centered, "divide by the standard deviation instead of the root mean square");
}

struct OptimizerConfig {
  Method optimizer = Method::adamw;
  double learning_rate = 1e-3, weight_decay = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double clip = 1;
  bool amsgrad = false;
  SgdConfig sgd = {};
  AdafactorConfig adafactor = {};
  RmspropConfig rmsprop = {};
  double rate_decay = 0, momentum_decay = 4e-3;
};
template <class V>
void fields(V& v, OptimizerConfig& c) {
  v("optimizer", c.optimizer,
    "the optimiser: those of PyTorch, and Adafactor also as in Hugging Face's transformers");
  v("learning_rate", c.learning_rate, "peak learning rate", above(0));
  v("weight_decay", c.weight_decay,
    "decoupled in adamw and both adafactors, otherwise added to the gradient; not applied to "
    "biases, norms and rezero scales",
    at_least(0));
  v("beta1", c.beta1, "decay of the moving average of gradients; adamw, adam, nadam, radam",
    range(0, 0.999999));
  v("beta2", c.beta2, "decay of the moving average of squared gradients; adamw, adam, nadam, radam",
    range(0, 0.999999));
  v("epsilon", c.epsilon, "added to the root mean square in the denominator", above(0));
  v("clip", c.clip,
    "largest global gradient norm; larger gradients are scaled down; 0 = no clipping", at_least(0));
  v("amsgrad", c.amsgrad, "adam, adamw: divide by the largest mean square so far");
  v("sgd", c.sgd, "options of sgd");
  v("adafactor", c.adafactor, "options of adafactor and adafactor_transformers");
  v("rmsprop", c.rmsprop, "options of rmsprop");
  v("rate_decay", c.rate_decay,
    "adagrad: the learning rate is divided by 1 + this times the steps so far", at_least(0));
  v("momentum_decay", c.momentum_decay, "nadam: how fast the momentum approaches beta1",
    at_least(0));
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
  // Starts a kept tensor for every weight.
  void keep(const std::string& kind, const std::function<Tensor(const Tensor& value)>& start);
  void keep_zeros(const std::string& kind);
  void keep_steps();  // "step", how many were done
  // `skip` is 1 where nothing may change, or undefined.
  virtual void update(Group& group, const Tensor& learning_rate, const Tensor& skip) = 0;
  OptimizerConfig config_;
  std::vector<Group> groups_;
};

// An optimiser whose `move` need not know of skipped steps: what it changed is put back.
class Unguarded : public Optimizer {
 protected:
  using Optimizer::Optimizer;
  void update(Group& group, const Tensor& learning_rate, const Tensor& skip) final;
  // The rate has the type of the weights.
  virtual void move(Group& group, const Tensor& learning_rate) = 0;
};

// The one that the config names.
std::unique_ptr<Optimizer> make_optimizer(const std::vector<Weight>& weights,
                                          const OptimizerConfig& config);

using MakeOptimizer = std::unique_ptr<Optimizer>(const std::vector<Weight>& weights,
                                                 const OptimizerConfig& config);
MakeOptimizer make_adam, make_sgd, make_adafactor, make_rmsprop, make_adagrad, make_nadam,
    make_radam;

}  // namespace longbow
