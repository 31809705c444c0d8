// Kingma and Ba, 2015, arXiv:1412.6980, and with a decoupled decay Loshchilov and Hutter, 2019,
// arXiv:1711.05101, in LibTorch's fused form. Amsgrad: Reddi et al., 2018.
#include <ATen/ATen.h>

#include "longbow/train/optimizers/optimizer.h"

namespace longbow {
namespace {

class Adam : public Optimizer {
 public:
  Adam(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Optimizer(weights, config) {
    keep_zeros("mean");
    keep_zeros("square");
    if (config.amsgrad) keep_zeros("largest");
    keep_steps();
  }

 protected:
  void update(Group& group, const Tensor& learning_rate, const Tensor& skip) override {
    auto& kept = group.kept;
    const auto& steps = kept.at("step");
    const auto step = config_.optimizer == Method::adamw ? static_cast<Fused*>(at::_fused_adamw_)
                                                         : static_cast<Fused*>(at::_fused_adam_);
    at::_foreach_add_(steps, 1);
    step(group.values, group.gradients, kept.at("mean"), kept.at("square"),
         config_.amsgrad ? at::TensorList(kept.at("largest")) : at::TensorList(), steps,
         learning_rate, config_.beta1, config_.beta2, group.decay, config_.epsilon, config_.amsgrad,
         /*maximize=*/false, {}, skip.defined() ? std::optional<Tensor>(skip) : std::nullopt);
    if (skip.defined()) at::_foreach_add_(steps, skip.neg());
  }

 private:
  using Fused = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                     at::TensorList, const Tensor&, double, double, double, double, bool, bool,
                     const std::optional<Tensor>&, const std::optional<Tensor>&);
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const std::vector<Weight>& weights,
                                     const OptimizerConfig& config) {
  return std::make_unique<Adam>(weights, config);
}

}  // namespace longbow
