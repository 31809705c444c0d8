#include "tests/support/tensor.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <sstream>

namespace longbow {

using at::Tensor;

Tolerance tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return {1e-9, 1e-9};
    case at::kFloat:
      return {2e-5, 2e-5};
    case at::kBFloat16:
      return {3e-2, 3e-2};
    case at::kHalf:
      return {5e-3, 5e-3};
    default:
      return kExact;
  }
}

testing::AssertionResult near_tensor(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (!got.defined() || !want.defined())
    return testing::AssertionFailure() << (got.defined() ? "nothing to compare with" : "no tensor");
  if (got.sizes() != want.sizes())
    return testing::AssertionFailure() << "shape " << got.sizes() << ", not " << want.sizes();
  if (got.numel() == 0) return testing::AssertionSuccess();
  const auto a = got.detach().to(at::kCPU, at::kDouble).flatten(),
             b = want.detach().to(at::kCPU, at::kDouble).flatten();
  const auto excess = ((a - b).abs() - b.abs() * tolerance.relative - tolerance.absolute)
                          .masked_fill(a == b, -1)
                          .nan_to_num(INFINITY, INFINITY);
  const auto worst = excess.argmax();
  if (excess[worst.item<int64_t>()].item<double>() <= 0) return testing::AssertionSuccess();
  std::ostringstream place;
  int64_t rest = worst.item<int64_t>();
  std::vector<int64_t> index(static_cast<size_t>(got.dim()));
  for (int64_t d = got.dim() - 1; d >= 0; --d) {
    index[static_cast<size_t>(d)] = rest % got.size(d);
    rest /= got.size(d);
  }
  place << at::IntArrayRef(index);
  const double x = a[worst.item<int64_t>()].item<double>(),
               y = b[worst.item<int64_t>()].item<double>();
  return testing::AssertionFailure()
         << "worst at " << place.str() << ": " << x << ", not " << y << " (difference " << x - y
         << ", ratio " << x / y << "), of shape " << got.sizes();
}

testing::AssertionResult near_tensor_format(const char* got_text, const char* want_text,
                                            const char*, const Tensor& got, const Tensor& want,
                                            Tolerance tolerance) {
  auto result = near_tensor(got, want, tolerance);
  if (result) return result;
  return testing::AssertionFailure()
         << got_text << " is not " << want_text << ": " << result.message();
}

Tensor random_normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
}

namespace {

// How much loss() changes per unit of a step along `direction`, by values alone.
double slope(const std::function<Tensor()>& loss, const Tensor& leaf, const Tensor& direction,
             double step) {
  auto place = leaf.detach();
  const auto start = place.clone();
  place.copy_(start + direction * step);
  const double above = loss().item<double>();
  place.copy_(start - direction * step);
  const double below = loss().item<double>();
  place.copy_(start);
  return (above - below) / (2 * step);
}

}  // namespace

testing::AssertionResult gradcheck(const std::function<Tensor()>& f,
                                   const std::vector<Leaf>& leaves, double tolerance) {
  constexpr int kDirections = 2;
  constexpr double kStep = 1e-5;
  const auto start = f();
  const auto weights = random_normal(start.sizes(), 99).to(start.device());
  const auto loss = [&] { return (f() * weights).sum(); };
  std::vector<Tensor> inputs;
  for (const auto& leaf : leaves) inputs.push_back(leaf.tensor);
  const auto gradients =
      torch::autograd::grad({loss()}, inputs, {}, std::nullopt, false, /*allow_unused=*/true);
  uint64_t seed = 1;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].tensor.numel() == 0) continue;
    for (int d = 0; d < kDirections; ++d) {
      const auto direction =
          random_normal(leaves[i].tensor.sizes(), seed++).to(leaves[i].tensor.device());
      const double got =
          gradients[i].defined() ? (gradients[i] * direction).sum().item<double>() : 0;
      const auto near = [&](double want) {
        return std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
      };
      double want = slope(loss, leaves[i].tensor, direction, kStep);
      // Where f bends within a step, as a norm does near zero, the error in the square of the step
      // is taken off.
      if (!near(want)) want = (4 * slope(loss, leaves[i].tensor, direction, kStep / 2) - want) / 3;
      if (!near(want))
        return testing::AssertionFailure()
               << "the gradient of " << leaves[i].name << " along direction " << d << " is " << got
               << ", but differences give " << want;
    }
  }
  return testing::AssertionSuccess();
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace longbow
