// Adafactor (Shazeer and Stern, 2018, arXiv:1804.04235): of the squared gradients of a matrix only
// the means of rows and columns are kept. PyTorch and transformers read the paper differently; both
// are here, for runs that are to be repeated.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "longbow/train/optimizers/optimizer.h"

namespace longbow {
namespace {

Tensor root_mean_square(const Tensor& x) {
  return x.norm() / std::sqrt(static_cast<double>(x.numel()));
}

class Adafactor : public Unguarded {
 public:
  Adafactor(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Unguarded(weights, config), options_(config.adafactor) {
    keep_steps();
    // What a weight of that shape does not use stays empty.
    keep("row", [](const Tensor& value) {
      return value.dim() > 1 ? at::zeros_like(value.select(-1, 0))
                             : at::zeros({0}, value.options());
    });
    keep("column", [](const Tensor& value) {
      return value.dim() > 1 ? at::zeros_like(value.select(-2, 0))
                             : at::zeros({0}, value.options());
    });
    keep("square", [](const Tensor& value) {
      return value.dim() > 1 ? at::zeros({0}, value.options()) : at::zeros_like(value);
    });
  }

 protected:
  struct Own {
    Tensor value, gradient, step, row, column, square, mean;
  };

  void move(Group& group, const Tensor& rate) override {
    const auto& kept = group.kept;
    at::_foreach_add_(kept.at("step"), 1);
    for (size_t i = 0; i < group.values.size(); ++i) {
      const auto mean = kept.find("mean");
      move_one({group.values[i], group.gradients[i], kept.at("step")[i].to(rate.scalar_type()),
                kept.at("row")[i], kept.at("column")[i], kept.at("square")[i],
                mean == kept.end() ? Tensor() : mean->second[i]},
               rate, group);
    }
  }
  virtual void move_one(const Own& own, const Tensor& rate, const Group& group) const = 0;

  // The kept means take in the squares of this step.
  void take_in(const Own& own, const Tensor& squares) const {
    const auto share = own.step.pow(options_.decay_exponent);
    if (own.value.dim() > 1) {
      own.row.lerp_(squares.mean(-1), share);
      own.column.lerp_(squares.mean(-2), share);
    } else {
      own.square.lerp_(squares, share);
    }
  }
  // No larger than the threshold, as a root mean square.
  Tensor limited(const Tensor& move) const {
    return move / (root_mean_square(move) / options_.threshold).clamp_min(1);
  }

  AdafactorConfig options_;
};

class TorchAdafactor : public Adafactor {
  using Adafactor::Adafactor;

  void move_one(const Own& own, const Tensor& rate, const Group& group) const override {
    const double epsilon = options_.epsilon > 0 ? options_.epsilon
                           : own.value.scalar_type() == at::kDouble
                               ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
    const auto size = root_mean_square(own.value).clamp_min(options_.smallest_scale);
    const auto pace = size * at::minimum(rate, own.step.rsqrt());
    take_in(own, own.gradient.square());
    const auto square = own.value.dim() > 1
                            ? own.row.unsqueeze(-1) * own.column.unsqueeze(-2) /
                                  own.row.mean(-1, true).clamp_min(epsilon).unsqueeze(-1)
                            : own.square;
    const auto move = own.gradient * square.clamp_min(epsilon * epsilon).rsqrt();
    own.value.mul_(1 - rate * group.decay).sub_(limited(move) * pace);
  }
};

class TransformersAdafactor : public Adafactor {
 public:
  TransformersAdafactor(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Adafactor(weights, config) {
    if (options_.beta1 > 0) keep_zeros("mean");
  }

 private:
  void move_one(const Own& own, const Tensor& rate, const Group& group) const override {
    auto pace = rate;
    if (options_.relative_step) {
      const auto limit = options_.warmup_init ? 1e-6 * own.step : at::full_like(rate, 1e-2);
      pace = at::minimum(limit, own.step.rsqrt());
      if (group.max_learning_rate > 0) pace = pace.clamp_max(group.max_learning_rate);
    }
    if (options_.scale_parameter)
      pace = pace * root_mean_square(own.value).clamp_min(options_.smallest_scale);
    take_in(own, own.gradient.square() + (options_.epsilon > 0 ? options_.epsilon : 1e-30));
    auto move = own.value.dim() > 1
                    ? own.gradient * (own.row / own.row.mean(-1, true)).rsqrt().unsqueeze(-1) *
                          own.column.rsqrt().unsqueeze(-2)
                    : own.gradient * own.square.rsqrt();
    move = limited(move) * pace;
    if (own.mean.defined()) move = own.mean.lerp_(move, 1 - options_.beta1);
    own.value.mul_(1 - pace * group.decay).sub_(move);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const std::vector<Weight>& weights,
                                          const OptimizerConfig& config) {
  if (config.optimizer == Method::adafactor)
    return std::make_unique<TorchAdafactor>(weights, config);
  return std::make_unique<TransformersAdafactor>(weights, config);
}

}  // namespace longbow
