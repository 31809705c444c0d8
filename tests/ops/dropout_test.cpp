#include "longbow/ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/dropping.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(Dropout, DropsWhatTheUniformNumbersSay) {
  expect_dropped_everywhere(at::kCPU);
}

TEST(Dropout, TheNumberOfThreadsChangesNothing) {
  const auto x = random_normal({100003}, 1);
  const int threads = at::get_num_threads();
  const auto drop = [&](int count) {
    at::set_num_threads(count);
    return philox_dropout(x, drop_key(at::kCPU), 9, 0.5);
  };
  const auto alone = drop(1), together = drop(4);
  at::set_num_threads(threads);
  EXPECT_NEAR_TENSOR(together, alone, kExact);
}

TEST(Dropout, HasASecondDerivative) {
  const auto x = random_normal({50}, 1).requires_grad_();
  const auto y = philox_dropout(x, drop_key(at::kCPU), 5, 0.3);
  const auto dx = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
  const auto kept = (philox_uniform(drop_key(at::kCPU), 5, {50}) >= 0.3).to(at::kDouble) / 0.7;
  // y = k x: the sum of 3 k^3 x^2 has the derivative 6 k^3 x.
  EXPECT_NEAR_TENSOR(torch::autograd::grad({dx.sum()}, {x})[0], 6 * kept.pow(3) * x.detach(),
                     (Tolerance{1e-12, 1e-12}));
}

TEST(Dropout, AKeyThatChangedBeforeTheBackwardPassIsAnError) {
  const auto x = random_normal({8}, 1).requires_grad_();
  auto key = drop_key(at::kCPU);
  const auto y = philox_dropout(x, key, 5, 0.3);
  key.select(0, 1).fill_(4);
  EXPECT_NE(error_of([&] { y.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(Dropout, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("philox_dropout"), "");
  const auto key = at::empty({2}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  EXPECT_EQ(philox_dropout(at::empty({2, 3}, at::kMeta), key, 5, 0.3).sizes(),
            at::IntArrayRef({2, 3}));
}

TEST(Dropout, RefusesAKeyThatIsNone) {
  EXPECT_EQ(error_of([] { philox_dropout(at::ones({3}), at::ones({2}), 5, 0.3); }),
            "philox_dropout: key is [2] Float, but needs [2] int64");
}

}  // namespace
}  // namespace longbow
