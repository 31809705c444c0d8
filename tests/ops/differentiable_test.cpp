#include "longbow/ops/differentiable.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// y = scale a b + c and the sum of b; c may be absent. Notes which gradients were asked for.
struct Product : Differentiable {
  Product(double by, std::vector<bool>* note) : scale(by), wanted(note) {}
  TensorVector forward(const TensorVector& inputs) override {
    const auto &a = inputs[0], &b = inputs[1], &c = inputs[2];
    EXPECT_FALSE(at::GradMode::is_enabled());
    save({a, b});
    const auto sum = b.sum();
    no_gradient_of({sum});
    const auto y = scale * a * b;
    return {c.defined() ? y + c : y, sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    for (size_t i = 0; i < 3; ++i) wanted->push_back(wants_gradient_of(i));
    return {scale * gradients[0] * kept[1], scale * gradients[0] * kept[0], gradients[0]};
  }
  double scale;
  std::vector<bool>* wanted;
};

Tensor leaf(uint64_t seed) {
  return random_normal({3}, seed).requires_grad_();
}

TEST(Differentiable, ValuesAndGradientsAreItsOwn) {
  const auto a = leaf(1), b = leaf(2), c = leaf(3);
  std::vector<bool> wanted;
  const auto y = applied<Product>({a, b, c}, 2.0, &wanted);
  EXPECT_NEAR_TENSOR(y[0], 2 * a * b + c, kExact);
  EXPECT_FALSE(y[1].requires_grad());
  const auto found = torch::autograd::grad({y[0].sum()}, {a, b, c});
  EXPECT_NEAR_TENSOR(found[0], 2 * b, kExact);
  EXPECT_NEAR_TENSOR(found[1], 2 * a, kExact);
  EXPECT_NEAR_TENSOR(found[2], at::ones_like(c), kExact);
  EXPECT_EQ(wanted, std::vector<bool>({true, true, true}));
}

TEST(Differentiable, SaysWhichGradientsAreAskedFor) {
  const auto a = random_normal({3}, 1), b = leaf(2), c = leaf(3);
  std::vector<bool> wanted;
  (void)torch::autograd::grad({applied<Product>({a, b, c}, 1.0, &wanted)[0].sum()}, {b});
  EXPECT_EQ(wanted, std::vector<bool>({false, true, false}));
}

// The first input, so that the places of the others move.
struct Added : Differentiable {
  explicit Added(std::vector<bool>* note) : wanted(note) {}
  TensorVector forward(const TensorVector& inputs) override {
    EXPECT_FALSE(inputs[0].defined());
    return {inputs[1] + 2 * inputs[2]};
  }
  TensorVector backward(const TensorVector& gradients) override {
    for (size_t i = 0; i < 3; ++i) wanted->push_back(wants_gradient_of(i));
    return {gradients[0], gradients[0], 2 * gradients[0]};
  }
  std::vector<bool>* wanted;
};

TEST(Differentiable, AnInputMayBeAbsent) {
  const auto a = random_normal({3}, 1), b = leaf(2);
  std::vector<bool> wanted;
  const auto y = applied<Added>({Tensor(), a, b}, &wanted)[0];
  EXPECT_NEAR_TENSOR(torch::autograd::grad({y.sum()}, {b})[0], at::full_like(b, 2), kExact);
  EXPECT_EQ(wanted, std::vector<bool>({false, false, true}));
}

// a, 2 a and a constant.
struct Several : Differentiable {
  explicit Several(TensorVector* note) : seen(note) {}
  TensorVector forward(const TensorVector& inputs) override {
    const auto constant = inputs[0].sum();
    no_gradient_of({constant});
    return {inputs[0] * 1, inputs[0].to(at::kFloat) * 2, constant};
  }
  TensorVector backward(const TensorVector& gradients) override {
    *seen = gradients;
    return {gradients[0] + 2 * gradients[1]};
  }
  TensorVector* seen;
};

TEST(Differentiable, AnUnusedOutputHasAGradientOfZerosAndAConstantNone) {
  const auto a = leaf(1);
  TensorVector seen;
  const auto y = applied<Several>({a}, &seen);
  EXPECT_NEAR_TENSOR(torch::autograd::grad({y[0].sum()}, {a})[0], at::ones_like(a), kExact);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_NEAR_TENSOR(seen[1], at::zeros({3}, at::kFloat), kExact);
  EXPECT_EQ(seen[1].scalar_type(), at::kFloat);
  EXPECT_FALSE(seen[2].defined());
}

TEST(Differentiable, ASecondDerivativeIsRecorded) {
  const auto a = leaf(1), b = leaf(2);
  std::vector<bool> wanted;
  const auto y = applied<Product>({a, b, Tensor()}, 3.0, &wanted)[0];
  const auto slope = torch::autograd::grad({y.sum()}, {a}, {}, true, /*create_graph=*/true)[0];
  EXPECT_NEAR_TENSOR(torch::autograd::grad({slope.sum()}, {b})[0], at::full_like(b, 3), kExact);
}

TEST(Differentiable, NothingIsRecordedWhenNobodyAsks) {
  std::vector<bool> wanted;
  const auto function = std::make_shared<Product>(1.0, &wanted);
  const auto y = applied(function, {random_normal({3}, 1), random_normal({3}, 2), Tensor()})[0];
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(function.use_count(), 1);  // no graph owns it
}

TEST(Differentiable, WhatIsSavedLivesUntilTheBackwardPass) {
  const auto a = leaf(1);
  auto b = leaf(2) * 1;
  const c10::weak_intrusive_ptr<c10::TensorImpl> kept(b.getIntrusivePtr());
  std::vector<bool> wanted;
  const auto y = applied<Product>({a, b, Tensor()}, 1.0, &wanted)[0];
  b.reset();
  EXPECT_FALSE(kept.expired());
  y.sum().backward();
  EXPECT_TRUE(kept.expired());
}

TEST(Differentiable, AChangeInPlaceIsNoticed) {
  const auto a = leaf(1), b = leaf(2) * 1;
  std::vector<bool> wanted;
  const auto y = applied<Product>({a, b, Tensor()}, 1.0, &wanted)[0];
  b.detach().add_(1);
  const auto error = error_of([&] { y.sum().backward(); });
  EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
}

TEST(Differentiable, IsAppliedOnce) {
  std::vector<bool> wanted;
  const auto function = std::make_shared<Product>(1.0, &wanted);
  const TensorVector inputs = {leaf(1), leaf(2), Tensor()};
  (void)applied(function, inputs);
  EXPECT_TRUE(error_of([&] {
                (void)applied(function, inputs);
              }).starts_with("a differentiable function was applied before"));
}

struct Wrong : Differentiable {
  TensorVector forward(const TensorVector& inputs) override { return {inputs[0] * inputs[1]}; }
  TensorVector backward(const TensorVector& gradients) override { return gradients; }
};

TEST(Differentiable, AMissingGradientIsAnError) {
  const auto y = applied<Wrong>({leaf(1), leaf(2)})[0];
  EXPECT_TRUE(
      error_of([&] { y.sum().backward(); }).starts_with("a gradient of 2 inputs returned 1"));
}

}  // namespace
}  // namespace longbow
