#include <ATen/ATen.h>

#include "longbow/train/optimizers/optimizer.h"

namespace longbow {
namespace {

// m = momentum m + (1 - dampening) g, but g alone the first time; w -= rate m, with Nesterov
// w -= rate (g + momentum m).
class Sgd : public Unguarded {
 public:
  Sgd(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Unguarded(weights, config) {
    if (config.sgd.momentum == 0) return;
    keep_zeros("momentum");
    keep_steps();
  }

 protected:
  void move(Group& group, const Tensor& rate) override {
    auto& gradients = group.gradients;
    if (group.decay > 0) at::_foreach_add_(gradients, group.values, group.decay);
    if (config_.sgd.momentum > 0) {
      const auto& momentum = group.kept.at("momentum");
      const auto& steps = group.kept.at("step");
      const auto is_later = (steps.front() > 0).to(rate.scalar_type());
      at::_foreach_mul_(momentum, config_.sgd.momentum);
      at::_foreach_add_(momentum,
                        at::_foreach_mul(gradients, 1 - config_.sgd.dampening * is_later));
      at::_foreach_add_(steps, 1);
      if (config_.sgd.nesterov)
        at::_foreach_add_(gradients, momentum, config_.sgd.momentum);
      else
        at::_foreach_copy_(gradients, momentum);
    }
    at::_foreach_mul_(gradients, rate);
    at::_foreach_sub_(group.values, gradients);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const std::vector<Weight>& weights,
                                    const OptimizerConfig& config) {
  return std::make_unique<Sgd>(weights, config);
}

}  // namespace longbow
