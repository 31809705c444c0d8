#include <ATen/ATen.h>

#include <limits>

#include "longbow/ops/time_steps.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Shape {
  int64_t tokens, heads;
  bool limited, padded;
};

// Steps, decays and all gradients of numbers that were rounded to bfloat16; dt is a part of wider
// rows.
std::vector<Tensor> results(const Shape& of, const at::TensorOptions& options, bool formula) {
  const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
    return random_normal(sizes, seed).to(at::kBFloat16).to(options).requires_grad_();
  };
  const auto rows = given({2, of.tokens, of.heads + 5}, 1), bias = given({of.heads}, 2),
             rate = given({of.heads}, 3);
  const auto keep =
      of.padded ? (random_normal({2, of.tokens}, 4) > -1).to(options.device()) : Tensor();
  const auto found = (formula ? time_steps_formula : time_steps)(
      rows.narrow(-1, 3, of.heads), bias, rate, keep, of.limited ? 0.3 : 0,
      of.limited ? 1.1 : std::numeric_limits<double>::infinity());
  const auto slopes = random_normal({2, 2, of.tokens, of.heads}, 5).to(found.step.options());
  ((found.step * slopes[0]).sum() + (found.log_decay * slopes[1]).sum()).backward();
  std::vector<Tensor> all = {found.step.detach(), found.log_decay.detach(), rows.grad(),
                             bias.grad(), rate.grad()};
  for (auto& t : all) t = t.cpu().to(at::kDouble);
  return all;
}

TEST(TimeStepsCuda, AreTheFormulaForAllShapes) {
  const auto gpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  for (const int64_t heads : {1, 3, 16, 300, 1030})
    for (const int64_t tokens : {1, 7, 1000})
      for (const bool limited : {false, true})
        for (const bool padded : {false, true}) {
          SCOPED_TRACE(
              c10::str(tokens, " x ", heads, limited ? ", limited" : "", padded ? ", padded" : ""));
          const Shape shape = {tokens, heads, limited, padded};
          const auto want = results(shape, at::kDouble, true), got = results(shape, gpu, false);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_LT(roundings(got[i], want[i], false), i < 2 ? 0.01 : 2) << i;
        }
}

TEST(TimeStepsCuda, HideNoNaN) {
  const auto options = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  const auto dt = at::full({1, 2, 3}, NAN, options).requires_grad_(),
             of_heads = at::ones({3}, options);
  const auto found = time_steps(dt, of_heads, of_heads, {}, 0, 1);
  found.log_decay.sum().backward();
  for (const auto& one : {found.step, found.log_decay, dt.grad()})
    EXPECT_TRUE(one.isnan().all().item<bool>());
}

}  // namespace
}  // namespace longbow
