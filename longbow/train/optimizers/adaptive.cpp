// RMSprop, Adagrad, NAdam and RAdam, as PyTorch defines them.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/train/optimizers/optimizer.h"

namespace longbow {
namespace {

// One weight after another: what is kept of it, by kind.
class Single : public Unguarded {
 protected:
  using Unguarded::Unguarded;
  using Kept = std::map<std::string, Tensor>;

  void move(Group& group, const Tensor& rate) override {
    if (group.decay > 0) at::_foreach_add_(group.gradients, group.values, group.decay);
    at::_foreach_add_(group.kept.at("step"), 1);
    for (size_t i = 0; i < group.values.size(); ++i) {
      Kept kept;
      for (const auto& [kind, tensors] : group.kept) kept[kind] = tensors[i];
      group.values[i].sub_(change(group.gradients[i], kept, rate));
    }
  }
  virtual Tensor change(const Tensor& gradient, Kept& kept, const Tensor& rate) const = 0;

  void take_in(const Tensor& gradient, Kept& kept) const {
    kept.at("mean").lerp_(gradient, 1 - config_.beta1);
    kept.at("square").mul_(config_.beta2).addcmul_(gradient, gradient, 1 - config_.beta2);
  }
};

Tensor power(double base, const Tensor& exponent) {
  return (exponent * std::log(base)).exp();
}

class Rmsprop : public Single {
 public:
  Rmsprop(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Single(weights, config) {
    keep_steps();
    keep_zeros("square");
    if (config.rmsprop.centered) keep_zeros("mean");
    if (config.rmsprop.momentum > 0) keep_zeros("momentum");
  }

 private:
  Tensor change(const Tensor& gradient, Kept& kept, const Tensor& rate) const override {
    const auto& options = config_.rmsprop;
    auto square = kept.at("square");
    square.mul_(options.alpha).addcmul_(gradient, gradient, 1 - options.alpha);
    if (options.centered)
      square = square - kept.at("mean").lerp_(gradient, 1 - options.alpha).square();
    const auto move = gradient / (square.sqrt() + config_.epsilon);
    if (options.momentum == 0) return rate * move;
    return rate * kept.at("momentum").mul_(options.momentum).add_(move);
  }
};

class Adagrad : public Single {
 public:
  Adagrad(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Single(weights, config) {
    keep_steps();
    keep_zeros("sum");
  }

 private:
  Tensor change(const Tensor& gradient, Kept& kept, const Tensor& rate) const override {
    const auto slower = 1 + (kept.at("step").to(rate.scalar_type()) - 1) * config_.rate_decay;
    const auto& sum = kept.at("sum").addcmul_(gradient, gradient);
    return rate / slower * gradient / (sum.sqrt() + config_.epsilon);
  }
};

// Dozat, 2016.
class Nadam : public Single {
 public:
  Nadam(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Single(weights, config) {
    keep_steps();
    keep_zeros("mean");
    keep_zeros("square");
    keep("product", [](const Tensor& value) {
      return at::ones({}, value.options().dtype(at::kFloat));  // as PyTorch keeps it
    });
  }

 private:
  Tensor momentum(const Tensor& step) const {
    return config_.beta1 * (1 - 0.5 * power(0.96, step * config_.momentum_decay));
  }
  Tensor change(const Tensor& gradient, Kept& kept, const Tensor& rate) const override {
    const auto step = kept.at("step").to(rate.scalar_type());
    const auto now = momentum(step), next = momentum(step + 1);
    const auto product = kept.at("product").mul_(now.to(at::kFloat)).to(rate.scalar_type());
    take_in(gradient, kept);
    const auto root =
        (kept.at("square") / (1 - power(config_.beta2, step))).sqrt() + config_.epsilon;
    return rate *
           (gradient * ((1 - now) / (1 - product)) +
            kept.at("mean") * (next / (1 - product * next))) /
           root;
  }
};

// Liu et al., 2020, arXiv:1908.03265: no adaptive rate until its variance is small enough.
class Radam : public Single {
 public:
  Radam(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Single(weights, config) {
    keep_steps();
    keep_zeros("mean");
    keep_zeros("square");
  }

 private:
  Tensor change(const Tensor& gradient, Kept& kept, const Tensor& rate) const override {
    const auto step = kept.at("step").to(rate.scalar_type());
    take_in(gradient, kept);
    const auto forgotten = power(config_.beta2, step), left = 1 - forgotten;
    const double longest = 2 / (1 - config_.beta2) - 1;
    const auto length = longest - 2 * step * forgotten / left;
    const auto rectified =
        ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * left)
            .clamp_min(0)
            .sqrt();
    const auto adaptive = rectified / (kept.at("square").sqrt() + config_.epsilon);
    return rate * kept.at("mean") / (1 - power(config_.beta1, step)) *
           at::where(length > 5, adaptive, at::ones_like(adaptive));
  }
};

template <class Made>
std::unique_ptr<Optimizer> make(const std::vector<Weight>& weights, const OptimizerConfig& config) {
  return std::make_unique<Made>(weights, config);
}

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const std::vector<Weight>& weights,
                                        const OptimizerConfig& config) {
  return make<Rmsprop>(weights, config);
}
std::unique_ptr<Optimizer> make_adagrad(const std::vector<Weight>& weights,
                                        const OptimizerConfig& config) {
  return make<Adagrad>(weights, config);
}
std::unique_ptr<Optimizer> make_nadam(const std::vector<Weight>& weights,
                                      const OptimizerConfig& config) {
  return make<Nadam>(weights, config);
}
std::unique_ptr<Optimizer> make_radam(const std::vector<Weight>& weights,
                                      const OptimizerConfig& config) {
  return make<Radam>(weights, config);
}

}  // namespace longbow
