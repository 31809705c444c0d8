#include <ATen/ATen.h>

#include "longbow/ops/long_convolution.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::TensorOptions kGpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);

// y and all gradients of numbers that were rounded to bfloat16; all rows are parts of wider ones.
std::vector<Tensor> results(int64_t tokens, int64_t channels, bool both,
                            const at::TensorOptions& options, bool formula) {
  const auto type = formula ? at::kDouble : at::kFloat;
  const auto
      rows = random_normal({2, tokens, channels + 16}, 1)
                 .to(at::kBFloat16)
                 .to(options)
                 .requires_grad_(),
      taps = random_normal({tokens, 2 * channels}, 2)
                 .to(at::kFloat)
                 .to(options.device(), type)
                 .requires_grad_(),
      skip =
          random_normal({channels}, 3).to(at::kFloat).to(options.device(), type).requires_grad_();
  const auto y = (formula ? long_convolution_formula : long_convolution)(
      rows.narrow(-1, 8, channels), taps.narrow(1, 0, channels),
      both ? taps.narrow(1, channels, channels) : Tensor(), skip);
  y.backward(random_normal({2, tokens, channels}, 4).to(at::kBFloat16).to(options));
  std::vector<Tensor> found = {y.detach(), rows.grad(), taps.grad(), skip.grad()};
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

void compare(int64_t tokens, int64_t channels, bool both) {
  SCOPED_TRACE(c10::str(tokens, " x ", channels, both ? ", both sides" : ""));
  const auto want = results(tokens, channels, both, at::kDouble, true),
             got = results(tokens, channels, both, kGpu, false);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
}

TEST(LongConvolutionCuda, IsTheFormulaForAllLengths) {
  for (const int64_t tokens : {1, 2, 31, 64, 65, 130, 777, 1024, 1025, 2500})
    for (const bool both : {false, true}) compare(tokens, 8, both);
}

TEST(LongConvolutionCuda, IsTheFormulaForAllChannels) {
  for (const int64_t channels : {16, 24, 40, 12}) compare(150, channels, true);
}

TEST(LongConvolutionCuda, ReadsNoLaterTokenAndIsTheSameEveryTime) {
  const auto u = random_normal({1, 1500, 8}, 1).to(kGpu);
  const auto past = random_normal({1500, 8}, 2).to(kGpu).to(at::kFloat),
             skip = random_normal({8}, 3).to(past.options());
  auto other = u.clone();
  other.narrow(1, 1100, 400).fill_(7);
  const auto y = long_convolution(u, past, {}, skip);
  EXPECT_TRUE(
      y.narrow(1, 0, 1100).equal(long_convolution(other, past, {}, skip).narrow(1, 0, 1100)));
  EXPECT_TRUE(y.equal(long_convolution(u, past, {}, skip)));
}

}  // namespace
}  // namespace longbow
