#include <ATen/ATen.h>

#include "longbow/ops/channel_mean.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Results {
  Tensor mean, dk, dv;
};
Results results(const Tensor& k, const Tensor& v, const Tensor& keep, const Tensor& gradient) {
  const auto key = k.detach().requires_grad_(), value = v.detach().requires_grad_();
  const auto mean = channel_mean(key, value, keep);
  mean.backward(gradient.to(mean.options()));
  const auto home = [](const Tensor& t) { return t.detach().to(at::kCPU, at::kDouble); };
  return {home(mean), home(key.grad()), home(value.grad())};
}

// Of the CPU in float64, from the same numbers.
void compare(const Tensor& k, const Tensor& v, const Tensor& keep, double rounding) {
  const auto gradient = random_normal({v.size(0), v.size(2)}, 3);
  const auto want = results(k.to(at::kDouble), v.to(at::kDouble), keep, gradient);
  const auto got =
      results(k.cuda(), v.cuda(), keep.defined() ? keep.cuda() : keep, gradient.cuda());
  const auto error = [](const Tensor& a, const Tensor& b) {
    return ((a - b).norm() / b.norm().clamp_min(1e-3)).item<double>();
  };
  EXPECT_LT(error(got.mean, want.mean), 1e-5);
  EXPECT_LT(error(got.dk, want.dk), 4 * rounding);
  EXPECT_LT(error(got.dv, want.dv), 4 * rounding);
}

TEST(ChannelMeanCuda, IsItsDefinitionForAllShapesAndTypes) {
  for (const auto& [type, rounding] :
       {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 4e-3}, {at::kHalf, 5e-4}})
    for (const int64_t tokens : {1, 7, 64, 65, 1000})
      for (const auto& [channels, group] : std::vector<std::pair<int64_t, int64_t>>{
               {8, 1}, {264, 1}, {512, 1}, {64, 8}, {512, 64}, {512, 256}, {12, 3}, {24, 1}}) {
        SCOPED_TRACE(c10::str(tokens, " tokens, ", channels, " by ", group, " ", type));
        const auto k = (2 * random_normal({3, tokens, channels / group}, 1)).to(type),
                   v = random_normal({3, tokens, channels}, 2).to(type);
        compare(k, v, {}, rounding);
        auto keep = random_normal({3, tokens}, 4) > 0;
        keep[1].fill_(false);
        compare(k, v, keep, rounding);
      }
}

TEST(ChannelMeanCuda, TakesRowsWithGapsAndIsTheSameEveryTime) {
  const auto both = random_normal({2, 300, 1024}, 1).to(at::kBFloat16).cuda();
  const auto k = both.narrow(2, 0, 512), v = both.narrow(2, 512, 512);
  const auto gradient = at::ones({2, 512});
  const auto first = results(k, v, {}, gradient),
             dense = results(k.contiguous(), v.contiguous(), {}, gradient);
  EXPECT_TRUE(at::equal(first.mean, dense.mean));
  EXPECT_TRUE(at::equal(first.dk, dense.dk));
  EXPECT_TRUE(at::equal(first.dv, results(k, v, {}, gradient).dv));
}

}  // namespace
}  // namespace longbow
