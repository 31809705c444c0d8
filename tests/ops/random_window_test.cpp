#include "longbow/ops/random_window.h"

#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/random_windows.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(RandomWindow, IsItsDefinition) {
  for (const bool mirrored : {false, true})
    for (const int64_t n : {1, 7, 40})
      for (const auto& [back, ahead] : {std::pair{0, 0}, {3, 5}, {50, 1}}) {
        const WindowInputs in(2, 3, n, 6, 5, 7);
        for (const bool causal : {false, true}) {
          const auto keep = causal == mirrored ? at::Tensor() : random_normal({2, n}, 9) > -0.5;
          const auto how = in.way(mirrored, back, ahead, keep, causal);
          const auto want = random_window_results(in, how, at::kDouble, dense_random_window),
                     op = random_window_results(in, how, at::kDouble, random_window),
                     formula = random_window_results(in, how, at::kDouble, random_window_formula);
          for (size_t i = 0; i < want.size(); ++i) {
            EXPECT_NEAR_TENSOR(op[i], want[i], (Tolerance{1e-9, 1e-9})) << i;
            if (i == 0) EXPECT_NEAR_TENSOR(formula[i], want[i], (Tolerance{1e-9, 1e-9}));
          }
        }
      }
}

TEST(RandomWindow, LargeExponentsCancel) {
  WindowInputs in(1, 2, 9, 8, 3, 9);
  in.q = in.q * 100;
  in.k = in.k * 100;
  for (const auto& t : random_window_results(in, in.way(true, 1, 1), at::kDouble, random_window))
    EXPECT_TRUE(t.isfinite().all().item<bool>());
}

TEST(RandomWindow, ProjectionsThatChangedBeforeTheBackwardPassAreAnError) {
  const WindowInputs in(2, 3, 7, 6, 5, 7);
  const auto q = in.q.clone().requires_grad_();
  const auto out = random_window(q, in.k, in.v, in.way(false, 1, 1));
  in.omega.mul_(2);
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(RandomWindow, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("random_window"), "");
  EXPECT_EQ(missing_kernels("random_window_backward"), "");
  const auto x = at::empty({2, 3, 7, 8}, at::kMeta).requires_grad_(),
             v = at::empty({2, 3, 7, 4}, at::kMeta);
  const auto y = random_window(x, x, v, {.omega = at::empty({1, 5, 8}, at::kMeta)});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 7, 4}));
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {x})[0].sizes(), x.sizes());
}

TEST(RandomWindow, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({1, 2, 3, 4}), omega = at::zeros({1, 5, 4});
  EXPECT_EQ(error_of([&] {
              random_window(x, at::zeros({1, 2, 3, 5}), x, {.omega = omega});
            }),
            "random_window: q is [1, 2, 3, 4], k [1, 2, 3, 5], v [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] {
              random_window(x, x, x, {.omega = at::zeros({3, 5, 4})});
            }),
            "random_window: omega is [3, 5, 4], but q is [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] {
              random_window(x, x, x, {.omega = omega, .keep = at::ones({1, 4}, at::kBool)});
            }),
            "random_window: keep is [1, 4] Bool, but k is [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] { random_window(x, x, x, {.omega = omega, .back = 1, .ahead = -1}); }),
            "random_window: from 1 tokens before a query to -1 after it");
  EXPECT_EQ(error_of([&] { random_window(x, x, x, {.omega = omega, .ahead = 1, .causal = true}); }),
            "random_window: from 0 tokens before a query to 1 after it, but causal");
  const auto y = at::zeros({1, 2, 3, 4}).requires_grad_();
  const auto out = random_window(y, y, y, {.omega = omega});
  EXPECT_EQ(error_of([&] { torch::autograd::grad({out.sum()}, {y}, {}, true, true); }),
            "random_window has no second derivative");
}

}  // namespace
}  // namespace longbow
