#include "longbow/train/optimizers/optimizer.h"

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

// What every method promises, whatever its options.
struct Variant {
  const char* name;
  OptimizerConfig config;
};

std::vector<Variant> variants() {
  auto amsgrad = kConfig;
  amsgrad.amsgrad = true;
  std::vector<Variant> all = {{"adamw", kConfig}, {"adamw_amsgrad", amsgrad}};
  const auto add = [&](const char* name, Method method, auto change) {
    auto config = kConfig;
    config.optimizer = method;
    change(config);
    all.push_back({name, config});
  };
  const auto as_is = [](OptimizerConfig&) {};
  add("adam", Method::adam, as_is);
  add("sgd", Method::sgd, as_is);
  add("sgd_momentum", Method::sgd,
      [](auto& c) { c.sgd = {.momentum = 0.9, .dampening = 0.2, .nesterov = false}; });
  add("adafactor", Method::adafactor, as_is);
  add("adafactor_transformers", Method::adafactor_transformers,
      [](auto& c) { c.adafactor.beta1 = 0.9; });
  add("rmsprop", Method::rmsprop,
      [](auto& c) { c.rmsprop = {.alpha = 0.9, .momentum = 0.5, .centered = true}; });
  add("adagrad", Method::adagrad, [](auto& c) { c.rate_decay = 0.1; });
  add("nadam", Method::nadam, as_is);
  add("radam", Method::radam, as_is);
  return all;
}

class EveryOptimizer : public testing::TestWithParam<Variant> {};

TEST_P(EveryOptimizer, ChangesNothingInAStepThatIsSkipped) {
  Toy toy;
  Optimised optimizer(toy, GetParam().config);
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
  set_gradients(toy, 6);
  optimizer.step(0.01, 1, true);
  EXPECT_GT((toy.weight - before).abs().max().item<double>(), 1e-6) << "the next step counts";
}

TEST_P(EveryOptimizer, AStepThatMayBeSkippedIsTheSameStep) {
  Toy guarded, plain;
  Optimised careful(guarded, GetParam().config), careless(plain, GetParam().config);
  for (uint64_t seed : {1, 20, 40}) {
    set_gradients(guarded, seed);
    set_gradients(plain, seed);
    careful.step(0.01, 1, true);
    careless.step(0.01);
    EXPECT_NEAR_TENSOR(guarded.weight, plain.weight, kExact);
  }
}

TEST_P(EveryOptimizer, GoesOnFromASavedState) {
  Toy whole, broken;
  Optimised straight(whole, GetParam().config), first(broken, GetParam().config);
  const auto step = [](Toy& toy, Optimised& optimizer, uint64_t seed) {
    set_gradients(toy, seed);
    optimizer.step(0.01);
  };
  for (uint64_t seed : {1, 20, 40}) step(whole, straight, seed);
  for (uint64_t seed : {1, 20}) step(broken, first, seed);
  Optimised second(broken, GetParam().config);
  second.load(first.state());
  step(broken, second, 40);
  EXPECT_NEAR_TENSOR(broken.weight, whole.weight, kExact);
  EXPECT_NEAR_TENSOR(broken.slow, whole.slow, kExact);
}

TEST_P(EveryOptimizer, LeavesABiasUndecayedAndALimitedWeightSlow) {
  auto config = GetParam().config;
  config.weight_decay = 1;
  Toy toy;
  const auto weight = toy.weight.detach().clone(), bias = toy.bias.detach().clone();
  Optimised optimizer(toy, config);
  toy.slow.mutable_grad().fill_(1);  // all others are zero, and so is what follows from them
  const auto slow = toy.slow.detach().clone();
  optimizer.step(0.1);
  EXPECT_NEAR_TENSOR(toy.bias, bias, kExact);
  EXPECT_GT((toy.weight - weight).abs().max().item<double>(), 1e-3) << "decays";
  EXPECT_LT((toy.slow - slow).abs().max().item<double>(), 0.02) << "a rate of 0.001, not 0.1";
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryOptimizer, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST(AdamW, AStateOfAnotherModelIsRefused) {
  Toy toy;
  Optimised optimizer(toy, kConfig);
  EXPECT_EQ(error_of([&] { optimizer.load({}); }),
            "optimizer state has no bias.mean; resume with the optimizer that the run began with");
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

struct Published {
  const char* name;
  Method method;
  double weight_decay, epsilon;  // where the library has other defaults
};
constexpr Published kPublished[] = {
    {"AdamW", Method::adamw, 0.01, 1e-8},
    {"Adam", Method::adam, 0, 1e-8},
    {"SGD", Method::sgd, 0, 1e-8},
    {"Adafactor", Method::adafactor, 0, 1e-8},
    {"transformers.Adafactor", Method::adafactor_transformers, 0, 1e-8},
    {"RMSprop", Method::rmsprop, 0, 1e-8},
    {"Adagrad", Method::adagrad, 0, 1e-10},
    {"NAdam", Method::nadam, 0, 1e-8},
    {"RAdam", Method::radam, 0, 1e-8},
};

OptimizerConfig config_of(const Published& published, const nlohmann::json& run) {
  const auto& options = run.at("options");
  OptimizerConfig config = {.optimizer = published.method};
  const auto& clip = run.at("clip_grad_norm");
  config.clip = clip.is_null() ? 0 : clip.get<double>();
  config.weight_decay = options.value("weight_decay", published.weight_decay);
  const auto betas = options.value("betas", std::vector<double>{0.9, 0.999});
  config.beta1 = betas[0];
  config.beta2 = betas[1];
  config.epsilon = published.epsilon;
  config.amsgrad = options.value("amsgrad", false);
  config.sgd = {.momentum = options.value("momentum", 0.0),
                .dampening = options.value("dampening", 0.0),
                .nesterov = options.value("nesterov", false)};
  config.rmsprop = {.alpha = options.value("alpha", 0.99),
                    .momentum = options.value("momentum", 0.0),
                    .centered = options.value("centered", false)};
  config.rate_decay = options.value("lr_decay", 0.0);
  config.adafactor = {.decay_exponent = options.value("beta2_decay", -0.8),
                      .threshold = options.value("d", 1.0),
                      .beta1 = options.value("beta1", 0.0),
                      .scale_parameter = options.value("scale_parameter", true),
                      .relative_step = options.value("relative_step", false),
                      .warmup_init = options.value("warmup_init", false)};
  if (const auto epsilon = options.find("eps"); epsilon != options.end()) {
    if (epsilon->is_array()) {
      config.adafactor.epsilon = epsilon->at(0).get<double>();
      config.adafactor.smallest_scale = epsilon->at(1).get<double>();
    } else {
      config.epsilon = epsilon->get<double>();
    }
  }
  return config;
}

void follow(const nlohmann::json& vectors, const nlohmann::json& run,
            const OptimizerConfig& config) {
  const auto x = tensor_of(vectors.at("X")), y = tensor_of(vectors.at("Y"));
  LeastSquares model(tensor_of(vectors.at("W0")), tensor_of(vectors.at("b0")));
  Optimised optimizer(model, config);
  const auto rate = run.at("options").at("lr");
  for (const auto& step : run.at("steps")) {
    const auto loss = (at::linear(x, model.weight, model.bias) - y).square().mean();
    EXPECT_NEAR(loss.item<double>(), step.at("loss").get<double>(), 1e-9);
    loss.backward();
    optimizer.step(rate.is_null() ? 1 : rate.get<double>());
    EXPECT_NEAR_TENSOR(model.weight, tensor_of(step.at("W")), (Tolerance{1e-8, 1e-8}));
    EXPECT_NEAR_TENSOR(model.bias, tensor_of(step.at("b")), (Tolerance{1e-8, 1e-8}));
  }
}

TEST(Optimizer, AgreesWithThePublishedSteps) {
  const auto vectors = parity("formats/optimizers.json");
  size_t followed = 0;
  for (const auto& run : vectors.at("runs"))
    for (const auto& published : kPublished) {
      if (run.at("optimizer") != published.name) continue;
      SCOPED_TRACE(published.name + run.at("options").dump());
      follow(vectors, run, config_of(published, run));
      ++followed;
    }
  EXPECT_EQ(followed, vectors.at("runs").size());
}

}  // namespace
}  // namespace longbow
