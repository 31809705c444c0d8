#include "longbow/train/step/step.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <cmath>

namespace longbow {
namespace {

at::ScalarType type_of(Precision precision) {
  if (precision == Precision::bf16) return at::kBFloat16;
  return precision == Precision::fp16 ? at::kHalf : at::kFloat;
}

std::string shape_key(Batch batch) {
  std::string key = batch.padded ? "padded" : "full";
  for (const auto* tensor : batch.tensors())
    for (const auto size : tensor->sizes()) key += " " + std::to_string(size);
  return key;
}

constexpr double kFirstLossScale = 65536;

}  // namespace

Step::Step(Task& task, const StepConfig& config)
    : task_(task),
      config_(config),
      weights_(task.model(), type_of(config.precision)),
      lanes_(task.lanes()),
      optimizer_(make_optimizer(weights_.all(), config.optimizer)),
      average_(config.average.ema > 0 ? std::make_unique<Average>(weights_.all(), config.average)
                                      : nullptr),
      anomaly_(config.anomaly ? std::make_unique<Anomaly>(weights_.all()) : nullptr),
      replay_(make_replay(task.device(), config.graphs && !config.anomaly)),
      random_(Random::from_seed(config.seed, 0, task.device())) {
  const auto options = at::TensorOptions(at::kFloat).device(task.device());
  rate_ = at::zeros({}, options);
  loss_scale_ = at::full({}, config.precision == Precision::fp16 ? kFirstLossScale : 1.0, options);
  growth_ = at::zeros({}, options.dtype(at::kInt));
  at::globalContext().setAllowTF32CuBLAS(config.precision == Precision::tf32);
  at::globalContext().setAllowTF32CuDNN(config.precision == Precision::tf32);
  sums_["gradient_norm"] = at::zeros({}, options.dtype(at::kDouble));
}

void Step::run(const std::vector<Batch>& batches, int64_t draw, double learning_rate) {
  for (auto& [name, sum] : sums_) sum.zero_();
  rate_.fill_(learning_rate);
  if (anomaly_) anomaly_->restart();
  for (const auto& given : batches) {
    random_.key.select(0, 1).fill_(draw++);
    if (lanes_ && given.first) lanes_->clear();
    const auto key = shape_key(given);
    const auto& batch = at_fixed_address(key, given);
    replay_->run(key, [&] { add(batch); });
  }
  replay_->run("update", [&] { update(); });
}

// Where a replayed step will look for the batch: at the place of the first one of its shapes.
const Batch& Step::at_fixed_address(const std::string& key, const Batch& batch) {
  auto& place = batches_[key];
  auto given = batch.to(task_.device());
  if (!replay_->captures() || !place.tokens.defined()) return place = given;
  const auto from = given.tensors(), to = place.tensors();
  for (size_t i = 0; i < from.size(); ++i) to[i]->copy_(*from[i], /*non_blocking=*/true);
  return place;
}

void Step::add(const Batch& batch) {
  Outcome outcome;
  const auto forward = [&] { outcome = task_.run(batch, random_); };
  anomaly_ ? anomaly_->watch(forward) : forward();
  (outcome.loss * (loss_scale_ / config_.nominal)).backward();
  for (const auto& [name, value] : outcome.sums) {
    auto& sum = sums_[name];
    if (!sum.defined()) sum = at::zeros(value.sizes(), value.options().dtype(at::kDouble));
    sum.add_(value.detach());
  }
}

void Step::update() {
  weights_.collect();
  // Gradients were divided by a number known beforehand, to keep them in range, and now by the
  // right one.
  const auto scale = config_.nominal / (sums_.at("weight").clamp_min(1) * loss_scale_);
  const bool scaling = config_.precision == Precision::fp16;
  const auto norm = optimizer_->step(rate_, scale.to(at::kFloat), scaling);
  sums_.at("gradient_norm").copy_(norm);
  weights_.publish();
  const auto overflow = scaling ? norm.isfinite().logical_not().to(at::kFloat) : Tensor();
  if (average_) average_->update(overflow);
  if (!scaling) return;
  at::_amp_update_scale_(loss_scale_, growth_, overflow, /*growth=*/2.0, /*backoff=*/0.5,
                         /*interval=*/2000);
}

void Step::begin_with(const Tensors& weights, const std::string& file) {
  weights_.load(weights, file);
  if (average_) average_ = std::make_unique<Average>(weights_.all(), config_.average);
}

Tensors Step::state() const {
  auto state = optimizer_->state();
  if (average_) state.merge(average_->state());
  if (lanes_) state.merge(lanes_->saved());
  state["loss_scale"] = loss_scale_;
  state["loss_scale_growth"] = growth_;
  return state;
}

void Step::load(const Tensors& state) {
  const auto own = this->state();
  for (const auto& [name, tensor] : state)
    if (!own.contains(name))
      throw UserError("the checkpoint has an unexpected state " + name,
                      "resume with the optimizer and the train.ema that the run began with");
  for (const auto* name : {"loss_scale", "loss_scale_growth"})
    if (!state.contains(name) || state.at(name).dim() != 0)
      throw UserError(std::string("the checkpoint has no ") + name);
  optimizer_->load(state);
  if (average_) average_->load(state);
  if (lanes_) lanes_->load(state);
  loss_scale_.copy_(state.at("loss_scale"));
  growth_.copy_(state.at("loss_scale_growth"));
}

void Step::exchange() {
  if (!average_) return;
  average_->exchange();
  weights_.publish();
}

std::string Step::anomaly() const {
  if (!anomaly_) return "";
  const auto loss = sums_.at("loss").item<double>();
  const auto norm = sums_.at("gradient_norm").item<double>();
  const auto where = [](const std::string& found) { return found.empty() ? "nowhere" : found; };
  if (!std::isfinite(loss))
    return "the loss is " + std::to_string(loss) +
           "; the first output that is not finite is that of " + where(anomaly_->output());
  // The scale of an fp16 loss is found by overflows; they are skipped.
  if (!std::isfinite(norm) && config_.precision != Precision::fp16)
    return "the gradient norm is " + std::to_string(norm) +
           "; the first gradient that is not finite is that of " + where(anomaly_->gradient());
  return "";
}

}  // namespace longbow
