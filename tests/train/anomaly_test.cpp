#include "longbow/train/step/anomaly.h"
#include "longbow/nn/contract/linear.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Two : public Part {
 public:
  Two() {
    first = register_module("first", std::make_shared<Linear>(Site{.path = "first"}, 4, 4));
    second = register_module("second", std::make_shared<Linear>(Site{.path = "second"}, 4, 4));
  }
  std::shared_ptr<Linear> first, second;
};

struct Watched {
  Two model;
  Weights weights{model, at::kFloat};
  Anomaly anomaly{weights.all()};
};

TEST(Anomaly, FindsNothingWhereAllIsFiniteOrHidden) {
  Watched watched;
  Tensor loss;
  watched.anomaly.watch([&] {
    const auto scores = (*watched.model.first)(at::ones({2, 4}));
    const auto hidden = scores.masked_fill(at::eye(4, at::kBool).narrow(0, 0, 2), -kInfinity);
    loss = (*watched.model.second)(hidden.softmax(-1)).sum();
  });
  loss.backward();
  EXPECT_EQ(watched.anomaly.output(), "");
  EXPECT_EQ(watched.anomaly.gradient(), "");
}

TEST(Anomaly, NamesTheModuleWhoseParametersAreRead) {
  Watched watched;
  {
    const at::NoGradGuard no_grad;
    watched.model.second->weight[1][2] = kInfinity;
  }
  watched.anomaly.watch([&] { (*watched.model.second)((*watched.model.first)(at::ones({2, 4}))); });
  EXPECT_EQ(watched.anomaly.output(), "second (longbow::affine)");
  watched.anomaly.restart();
  EXPECT_EQ(watched.anomaly.output(), "");
}

TEST(Anomaly, NamesTheOperationAndTheModuleBeforeIt) {
  Watched watched;
  watched.anomaly.watch([&] {
    const auto x = (*watched.model.first)(at::ones({2, 4}));
    (*watched.model.second)((x - x).log().neg());
  });
  EXPECT_EQ(watched.anomaly.output(), "aten::neg, after first");
}

TEST(Anomaly, AnUninitialisedTensorIsNone) {
  Watched watched;
  watched.anomaly.watch([&] { at::empty({3}).fill_(1); });
  EXPECT_EQ(watched.anomaly.output(), "");
}

TEST(Anomaly, NamesTheFirstGradientOnTheWayBack) {
  Watched watched;
  Tensor loss;
  watched.anomaly.watch([&] {
    const auto x = (*watched.model.first)(at::ones({2, 4}));
    loss = (*watched.model.second)((x - x.detach()).sqrt()).sum();  // the slope at 0 is infinite
  });
  loss.backward();
  EXPECT_EQ(watched.anomaly.output(), "");
  EXPECT_TRUE(watched.anomaly.gradient().starts_with("first.")) << watched.anomaly.gradient();
}

}  // namespace
}  // namespace longbow
