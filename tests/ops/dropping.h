#pragma once
#include "longbow/ops/dropout.h"
#include "longbow/ops/philox.h"
#include "tests/support/tensor.h"

namespace longbow {

inline at::Tensor drop_key(at::Device device) {
  return at::tensor({11, 3}, at::kLong).to(device);
}

// Drops x as its own uniform numbers say, values and gradients.
inline void expect_dropped(const at::Tensor& given, Tolerance tolerance) {
  constexpr double kRate = 0.3;
  const auto x = given.detach().requires_grad_();
  const auto key = drop_key(x.device());
  const auto y = philox_dropout(x, key, 5, kRate);
  const auto kept = (philox_uniform(key, 5, x.sizes()) >= kRate).to(at::kDouble) / (1 - kRate);
  EXPECT_EQ(y.scalar_type(), x.scalar_type());
  EXPECT_NEAR_TENSOR(y.detach().to(at::kDouble), given.to(at::kDouble) * kept, tolerance);
  const auto dy = given.detach() + 1;
  y.backward(dy);
  EXPECT_NEAR_TENSOR(x.grad().to(at::kDouble), dy.to(at::kDouble) * kept, tolerance);

  // What is left of it, added to something else.
  const auto y_in = given.detach().requires_grad_(), more = (given.detach() - 2).requires_grad_();
  const auto sum = add_dropped(more, y_in, {kRate, key, 5});
  EXPECT_EQ(sum.scalar_type(), x.scalar_type());
  EXPECT_NEAR_TENSOR(sum.detach().to(at::kDouble),
                     more.detach().to(at::kDouble) + given.to(at::kDouble) * kept, tolerance);
  sum.backward(dy);
  EXPECT_NEAR_TENSOR(y_in.grad().to(at::kDouble), dy.to(at::kDouble) * kept, tolerance);
  EXPECT_NEAR_TENSOR(more.grad(), dy, kExact);
}

inline void expect_dropped_everywhere(at::Device device) {
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-15},
                                        {at::kFloat, 1e-6},
                                        {at::kBFloat16, 8e-3},
                                        {at::kHalf, 1e-3}})
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {1}, {3}, {4}, {5, 7}, {2, 1023}, {3, 1025, 2}, {70001}}) {
      SCOPED_TRACE(c10::str(type, " ", shape));
      expect_dropped(random_normal(shape, 1).to(type).to(device), {tolerance, tolerance});
    }
  // With gaps, and from an odd address.
  const auto all = random_normal({9, 13}, 2).to(at::kFloat).to(device);
  expect_dropped(all.t(), {1e-6, 1e-6});
  expect_dropped(all.flatten().narrow(0, 1, 101), {1e-6, 1e-6});
}

}  // namespace longbow
