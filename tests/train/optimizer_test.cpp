#include "longbow/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"
#include "tests/train/parity.h"

namespace longbow {
namespace {

// A matrix that decays, a bias that does not, and a vector with a rate limit of its own.
class Toy : public Part {
 public:
  Toy() {
    weight = parameter("weight", random_normal({3, 4}, 1));
    bias = parameter("bias", random_normal({3}, 2), {.decay = false});
    slow = parameter("slow", random_normal({5}, 3), {.max_learning_rate = 0.001});
  }
  Tensor weight, bias, slow;
};

constexpr OptimizerConfig kConfig = {
    .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .clip = 0};

struct Kept {
  Tensor value, mean, square;
};

// Loshchilov and Hutter's algorithm, line by line.
void reference(Kept& kept, const Tensor& gradient, int step, double rate, double decay) {
  kept.value = kept.value * (1 - rate * decay);
  kept.mean = kConfig.beta1 * kept.mean + (1 - kConfig.beta1) * gradient;
  kept.square = kConfig.beta2 * kept.square + (1 - kConfig.beta2) * gradient * gradient;
  const auto mean = kept.mean / (1 - std::pow(kConfig.beta1, step));
  const auto square = kept.square / (1 - std::pow(kConfig.beta2, step));
  kept.value = kept.value - rate * mean / (square.sqrt() + kConfig.epsilon);
}

Kept start_of(const Tensor& parameter) {
  return {parameter.detach().clone(), at::zeros_like(parameter), at::zeros_like(parameter)};
}

void set_gradients(Toy& toy, uint64_t seed, double size = 1) {
  for (auto* parameter : {&toy.weight, &toy.bias, &toy.slow})
    parameter->mutable_grad().copy_(random_normal(parameter->sizes(), seed++) * size);
}

// An optimiser on all weights of a float64 model.
class Optimised {
 public:
  Optimised(torch::nn::Module& model, const OptimizerConfig& config)
      : weights_(model, at::kDouble), optimizer_(make_optimizer(weights_.all(), config)) {}
  Tensor step(double learning_rate, double scale = 1, bool skip_overflow = false) {
    const auto scalar = [](double value) { return at::full({}, value, at::kDouble); };
    return optimizer_->step(scalar(learning_rate), scalar(scale), skip_overflow);
  }
  Tensors state() const { return optimizer_->state(); }
  void load(const Tensors& state) { optimizer_->load(state); }

 private:
  Weights weights_;
  std::unique_ptr<Optimizer> optimizer_;
};

TEST(AdamW, FollowsItsDefinitionWithDecayGroupsAndRateLimits) {
  Toy toy;
  Optimised optimizer(toy, kConfig);
  auto weight = start_of(toy.weight), bias = start_of(toy.bias), slow = start_of(toy.slow);
  for (int step = 1; step <= 6; ++step) {
    const double rate = 0.02 / step;
    set_gradients(toy, static_cast<uint64_t>(10 * step));
    reference(weight, toy.weight.grad().clone(), step, rate, 0.1);
    reference(bias, toy.bias.grad().clone(), step, rate, 0);
    reference(slow, toy.slow.grad().clone(), step, std::min(rate, 0.001), 0.1);
    optimizer.step(rate);
    EXPECT_NEAR_TENSOR(toy.weight, weight.value, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(toy.bias, bias.value, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(toy.slow, slow.value, tolerance(at::kDouble));
  }
}

TEST(AdamW, ReturnsTheGlobalNormAndClearsTheGradients) {
  Toy toy;
  Optimised optimizer(toy, kConfig);
  set_gradients(toy, 4);
  const auto norm = at::cat({toy.weight.grad().flatten(), toy.bias.grad(), toy.slow.grad()}).norm();
  EXPECT_NEAR_TENSOR(optimizer.step(0.01), norm, tolerance(at::kDouble));
  for (const auto& parameter : toy.parameters())
    EXPECT_NEAR_TENSOR(parameter.grad(), at::zeros_like(parameter), kExact);
}

TEST(AdamW, ClipsTheGlobalNormAndNothingBelowIt) {
  auto clipped = kConfig;
  clipped.clip = 0.5;
  const auto after = [](const OptimizerConfig& config, double size) {
    Toy toy;
    Optimised optimizer(toy, config);
    set_gradients(toy, 4);
    const double norm = at::cat({toy.weight.grad().flatten(), toy.bias.grad(), toy.slow.grad()})
                            .norm()
                            .item<double>();
    set_gradients(toy, 4, size / norm);
    optimizer.step(0.01);
    return optimizer.state().at("weight.mean").clone();
  };
  EXPECT_NEAR_TENSOR(after(clipped, 20), after(kConfig, 0.5), (Tolerance{1e-7, 1e-5}));
  EXPECT_NEAR_TENSOR(after(clipped, 0.4), after(kConfig, 0.4), kExact);
  EXPECT_GT((after(kConfig, 20) - after(clipped, 20)).abs().max().item<double>(), 0.1);
}

TEST(AdamW, ScalesTheGradientsBeforeItMeasuresAndClipsThem) {
  Toy scaled, plain;
  Optimised by_four(scaled, kConfig), by_hand(plain, kConfig);
  set_gradients(scaled, 4);
  set_gradients(plain, 4, 4);
  EXPECT_NEAR_TENSOR(by_four.step(0.01, 4), by_hand.step(0.01), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(scaled.weight, plain.weight, tolerance(at::kDouble));
}

TEST(AdamW, AnOverflowChangesNothingWhenItIsToBeSkipped) {
  Toy toy;
  Optimised optimizer(toy, kConfig);
  set_gradients(toy, 4);
  optimizer.step(0.01, 1, true);
  const auto before = toy.weight.detach().clone();
  Tensors state;
  for (const auto& [name, tensor] : optimizer.state()) state[name] = tensor.clone();
  set_gradients(toy, 5);
  toy.bias.mutable_grad()[1] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(std::isfinite(optimizer.step(0.01, 1, true).item<double>()));
  EXPECT_NEAR_TENSOR(toy.weight, before, kExact);
  for (const auto& [name, tensor] : optimizer.state())
    EXPECT_NEAR_TENSOR(tensor, state.at(name), kExact) << name;
}

TEST(AdamW, GoesOnFromASavedState) {
  Toy whole, broken;
  Optimised straight(whole, kConfig), first(broken, kConfig);
  const auto step = [](Toy& toy, Optimised& optimizer, uint64_t seed) {
    set_gradients(toy, seed);
    optimizer.step(0.01);
  };
  for (uint64_t seed : {1, 20, 40}) step(whole, straight, seed);
  for (uint64_t seed : {1, 20}) step(broken, first, seed);
  Optimised second(broken, kConfig);
  second.load(first.state());
  step(broken, second, 40);
  EXPECT_NEAR_TENSOR(broken.weight, whole.weight, kExact);
  EXPECT_NEAR_TENSOR(broken.slow, whole.slow, kExact);
}

TEST(AdamW, AStateOfAnotherModelIsRefused) {
  Toy toy;
  Optimised optimizer(toy, kConfig);
  EXPECT_NE(error_of([&] { optimizer.load({}); }).find("optimizer state has no bias.mean"),
            std::string::npos);
}

Tensor tensor_of(const nlohmann::json& rows) {
  if (!rows.front().is_array()) return at::tensor(rows.get<std::vector<double>>(), at::kDouble);
  std::vector<Tensor> stacked;
  for (const auto& row : rows) stacked.push_back(tensor_of(row));
  return at::stack(stacked);
}

class LeastSquares : public Part {
 public:
  LeastSquares(const Tensor& w, const Tensor& b) {
    weight = parameter("weight", w.clone());
    bias = parameter("bias", b.clone());
  }
  Tensor weight, bias;
};

void follow(const nlohmann::json& vectors, const nlohmann::json& run) {
  const auto& options = run.at("options");
  const auto x = tensor_of(vectors.at("X")), y = tensor_of(vectors.at("Y"));
  LeastSquares model(tensor_of(vectors.at("W0")), tensor_of(vectors.at("b0")));
  const auto betas = options.value("betas", std::vector<double>{0.9, 0.999});
  const auto& clip = run.at("clip_grad_norm");
  Optimised optimizer(model, {.weight_decay = options.value("weight_decay", 0.01),
                              .beta1 = betas[0],
                              .beta2 = betas[1],
                              .epsilon = options.value("eps", 1e-8),
                              .clip = clip.is_null() ? 0 : clip.get<double>()});
  for (const auto& step : run.at("steps")) {
    const auto loss = (at::linear(x, model.weight, model.bias) - y).square().mean();
    EXPECT_NEAR(loss.item<double>(), step.at("loss").get<double>(), 1e-9);
    loss.backward();
    optimizer.step(options.value("lr", 1e-3));
    EXPECT_NEAR_TENSOR(model.weight, tensor_of(step.at("W")), (Tolerance{1e-8, 1e-8}));
    EXPECT_NEAR_TENSOR(model.bias, tensor_of(step.at("b")), (Tolerance{1e-8, 1e-8}));
  }
}

TEST(AdamW, AgreesWithThePublishedSteps) {
  const auto vectors = parity("formats/optimizers.json");
  if (vectors.is_null()) GTEST_SKIP() << kNoParity;
  int followed = 0;
  for (const auto& run : vectors.at("runs")) {
    if (run.at("optimizer") != "AdamW" || run.at("options").value("amsgrad", false)) continue;
    SCOPED_TRACE(run.at("options").dump());
    follow(vectors, run);
    ++followed;
  }
  EXPECT_GT(followed, 0);
}

}  // namespace
}  // namespace longbow
