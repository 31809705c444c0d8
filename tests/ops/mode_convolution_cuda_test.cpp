#include <ATen/ATen.h>

#include "longbow/ops/mode_convolution.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::TensorOptions kGpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);

struct Shape {
  int64_t tokens, channels, modes, directions = 2;
  FirstLag first = FirstLag::one;
  ModeActivation activation = ModeActivation::none;
  double slowest = 1e-3;  // about a thousand tokens
};

// Rates between `slowest` and 1 that turn, in float32 as the parameters of a layer.
Tensor rates(const Shape& shape) {
  const at::IntArrayRef sizes = {shape.directions, shape.channels, shape.modes};
  const auto size = shape.slowest + random_normal(sizes, 5).abs() / 8,
             turn = random_normal(sizes, 6);
  return at::stack({-size, turn}, -1).to(at::kFloat);
}

// A state is about as large as its token.
Tensor weights(const Shape& shape) {
  const auto rate = rates(shape);
  return random_normal(rate.sizes(), 2).to(at::kFloat) * rate.norm(2, -1, true);
}

// y and all gradients of numbers that were rounded to bfloat16; the rows are parts of wider ones.
std::vector<Tensor> results(const Shape& shape, const at::TensorOptions& options, bool formula) {
  const auto device = options.device();
  const auto type = formula ? at::kDouble : at::kFloat;
  const auto
      rows = random_normal({2, shape.tokens, shape.channels + 16}, 1)
                 .to(at::kBFloat16)
                 .to(options)
                 .requires_grad_(),
      rate = rates(shape).to(device, type).requires_grad_(),
      weight = weights(shape).to(device, type).requires_grad_(),
      skip = random_normal({shape.channels}, 3).to(at::kFloat).to(device, type).requires_grad_();
  const auto y = (formula ? mode_convolution_formula : mode_convolution)(
      rows.narrow(-1, 8, shape.channels), rate, weight, skip, shape.first, shape.activation);
  y.backward(random_normal({2, shape.tokens, shape.channels}, 4).to(at::kBFloat16).to(options));
  std::vector<Tensor> found = {y.detach(), rows.grad(), rate.grad(), weight.grad(), skip.grad()};
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

void compare(const Shape& shape) {
  SCOPED_TRACE(c10::str(shape.tokens, " x ", shape.channels, ", ", shape.modes, " modes, ",
                        shape.directions, " directions from ", static_cast<int>(shape.first),
                        ", activation ", static_cast<int>(shape.activation)));
  const auto want = results(shape, at::kDouble, true), got = results(shape, kGpu, false);
  const double most = shape.activation == ModeActivation::none ? 3 : 8;  // y is rounded before it
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(roundings(got[i], want[i], false), most) << i;
}

TEST(ModeConvolutionCuda, IsTheFormulaForAllLengths) {
  for (const int64_t tokens : {1, 2, 63, 64, 65, 128, 130, 777, 1024, 1025, 2500})
    compare({.tokens = tokens, .channels = 8, .modes = 5});
}

TEST(ModeConvolutionCuda, IsTheFormulaForAllChannelsAndModes) {
  for (const int64_t channels : {16, 24, 40, 12})
    for (const int64_t modes : {1, 8, 33})
      compare({.tokens = 150, .channels = channels, .modes = modes});
}

TEST(ModeConvolutionCuda, IsTheFormulaInAllForms) {
  for (const int64_t tokens : {100, 2100})
    for (const int64_t directions : {1, 2})
      for (const auto first : {FirstLag::zero, FirstLag::one})
        for (const auto activation :
             {ModeActivation::none, ModeActivation::gelu, ModeActivation::silu})
          compare({tokens, 8, 3, directions, first, activation});
}

// A mode that keeps nothing counts its own token alone.
TEST(ModeConvolutionCuda, TakesModesThatKeepNothing) {
  const auto u = random_normal({1, 200, 8}, 1).to(kGpu);
  auto rate = at::zeros({2, 8, 1, 2}, kGpu.dtype(at::kFloat));
  rate.select(-1, 0).fill_(-200);
  const auto weight = at::ones_like(rate), skip = at::zeros({8}, rate.options());
  const auto y = mode_convolution(u, rate, weight, skip, FirstLag::zero, ModeActivation::none);
  EXPECT_NEAR_TENSOR(y, 2 * u, (Tolerance{1e-2, 1e-2}));
}

TEST(ModeConvolutionCuda, ReadsNoLaterTokenAndIsTheSameEveryTime) {
  const auto rate = rates({.tokens = 0, .channels = 8, .modes = 4, .directions = 1}).cuda(),
             weight = random_normal(rate.sizes(), 2).to(rate.options()),
             skip = random_normal({8}, 3).to(rate.options());
  const auto u = random_normal({1, 1500, 8}, 1).to(kGpu);
  const auto of = [&](const Tensor& x) {
    return mode_convolution(x, rate, weight, skip, FirstLag::one, ModeActivation::none);
  };
  auto other = u.clone();
  other.narrow(1, 1100, 400).fill_(7);
  EXPECT_TRUE(of(u).narrow(1, 0, 1100).equal(of(other).narrow(1, 0, 1100)));
  EXPECT_TRUE(of(u).equal(of(u)));
}

}  // namespace
}  // namespace longbow
