#include "longbow/train/optimizers/average.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

class Toy : public Part {
 public:
  Toy() {
    weight = parameter("weight", random_normal({3, 4}, 1));
    bias = parameter("bias", random_normal({3}, 2));
  }
  Tensor weight, bias;
};

// The weights of step t, and what an average over t steps of them must be.
Tensor at_time(int64_t t) {
  return random_normal({3, 4}, static_cast<uint64_t>(100 + t));
}

class Averaged {
 public:
  explicit Averaged(const AverageConfig& config)
      : weights_(toy, at::kDouble), average(weights_.all(), config) {}
  void step(int64_t t, const Tensor& skip = {}) {
    const at::NoGradGuard no_grad;
    if (!skip.defined() || skip.item<double>() == 0) toy.weight.copy_(at_time(t));
    average.update(skip);
  }
  Tensor value() const { return average.state().at("weight.ema"); }
  Toy toy;

 private:
  Weights weights_;

 public:
  Average average;
};

TEST(Average, IsAMeanWithFallingShares) {
  Averaged plain({.ema = 0.9, .ema_corrected = false}), corrected({.ema = 0.9});
  auto want = plain.toy.weight.detach().clone();
  Tensor sum = at::zeros({3, 4}, at::kDouble);
  double shares = 0;
  for (int64_t t = 1; t <= 5; ++t) {
    plain.step(t);
    corrected.step(t);
    want = 0.9 * want + 0.1 * at_time(t);
    sum = 0.9 * sum + at_time(t);
    shares = 0.9 * shares + 1;
    EXPECT_NEAR_TENSOR(plain.value(), want, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(corrected.value(), sum / shares, tolerance(at::kDouble));
  }
}

TEST(Average, ASkippedStepIsNoPartOfIt) {
  Averaged some({.ema = 0.9}), all({.ema = 0.9});
  const auto skip = at::ones({}), keep = at::zeros({});
  some.step(1, skip);
  some.step(1, keep);
  some.step(2, skip);
  some.step(2, keep);
  for (int64_t t : {1, 2}) all.step(t);
  EXPECT_NEAR_TENSOR(some.value(), all.value(), kExact);
}

TEST(Average, ChangesPlacesWithTheWeightsAndBack) {
  Averaged both({.ema = 0.9});
  for (int64_t t : {1, 2, 3}) both.step(t);
  const auto average = both.value().clone();
  both.average.exchange();
  EXPECT_NEAR_TENSOR(both.toy.weight, average, kExact);
  both.average.exchange();
  EXPECT_NEAR_TENSOR(both.toy.weight, at_time(3), kExact);
  EXPECT_NEAR_TENSOR(both.value(), average, kExact);
}

TEST(Average, GoesOnFromASavedState) {
  Averaged whole({.ema = 0.9}), first({.ema = 0.9}), second({.ema = 0.9});
  for (int64_t t : {1, 2, 3}) whole.step(t);
  for (int64_t t : {1, 2}) first.step(t);
  second.average.load(first.average.state());
  second.step(3);
  EXPECT_NEAR_TENSOR(second.value(), whole.value(), kExact);
  EXPECT_NE(error_of([&] { second.average.load({}); })
                .find("the checkpoint has no average of the weights (bias.ema); resume with the "
                      "train.ema that the run began with"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
