#include <ATen/ATen.h>

#include "tests/ops/feeding.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

using at::Tensor;

// How far the results of the kernels are from those of the formula in float64, in norms.
void expect_formula(int64_t tokens, int64_t width, int64_t units, kernels::Curve curve, double rate,
                    at::ScalarType type) {
  SCOPED_TRACE(c10::str(tokens, " x ", width, ", ", units, " units, curve ",
                        static_cast<int>(curve), ", rate ", rate, ", ", type));
  const FedInputs in(tokens, width, units, type);
  const at::TensorOptions gpu = at::TensorOptions(type).device("cuda:0");
  const auto want = in.results(at::kDouble, curve, rate, feed_forward_formula),
             got = in.results(gpu, curve, rate, [](const Tensor&x, const FeedForwardLayer&layer) {
               EXPECT_TRUE(has_feed_forward_kernel(x, layer));
               return feed_forward(x, layer);
             });
  const double rounding = type == at::kHalf ? 0x1p-11 : 0x1p-8;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = (got[i] - want[i]).norm().item<double>(),
                 size = want[i].norm().item<double>();
    EXPECT_LT(difference, 1.5 * rounding * size) << FedInputs::names()[i];
  }
}

TEST(FeedForwardCuda, IsTheFormulaForAllShapes) {
  using kernels::Curve;
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const int64_t tokens : {1, 17, 300}) {
      expect_formula(tokens, 64, 128, Curve::gelu, 0.1, type);
      expect_formula(tokens, 128, 256, Curve::gelu, 0.1, type);
    }
  expect_formula(100, 64, 40, Curve::gelu_tanh, 0, at::kBFloat16);
  expect_formula(100, 64, 256, Curve::silu, 0, at::kBFloat16);
  expect_formula(100, 64, 512, Curve::gelu, 0.5, at::kHalf);
  expect_formula(100, 128, 8, Curve::silu, 0, at::kHalf);
}

// A relu turns a rounding near zero into another slope, so its values alone are compared closely.
TEST(FeedForwardCuda, HasARelu) {
  const FedInputs in(200, 64, 128, at::kBFloat16);
  const auto want = in.results(at::kDouble, kernels::Curve::relu, 0, feed_forward_formula),
             got = in.results(at::TensorOptions(at::kBFloat16).device("cuda:0"),
                              kernels::Curve::relu, 0, feed_forward);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LT((got[i] - want[i]).norm().item<double>(),
              (i == 0 ? 0.006 : 0.1) * want[i].norm().item<double>())
        << FedInputs::names()[i];
}

TEST(FeedForwardCuda, IsTheSameEveryTime) {
  const FedInputs in(3000, 64, 128, at::kBFloat16);
  const auto run = [&] {
    return in.results(at::TensorOptions(at::kBFloat16).device("cuda:0"), kernels::Curve::gelu, 0.1,
                      feed_forward);
  };
  const auto first = run(), again = run();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR_TENSOR(again[i], first[i], kExact);
}

TEST(FeedForwardCuda, HasKernelsForHalfTypesOfItsWidths) {
  const FedInputs in(10, 64, 128, at::kBFloat16);
  const auto x = in.x.to(at::TensorOptions(at::kBFloat16).device("cuda:0"));
  auto layer = in.layer(x.options(), kernels::Curve::gelu, 0);
  EXPECT_TRUE(has_feed_forward_kernel(x, layer));
  EXPECT_FALSE(has_feed_forward_kernel(x.to(at::kFloat), layer));
  EXPECT_FALSE(has_feed_forward_kernel(x.narrow(-1, 0, 32), layer));
  layer.up = layer.up.to(at::kFloat);
  EXPECT_FALSE(has_feed_forward_kernel(x, layer));
}

}  // namespace
}  // namespace longbow
