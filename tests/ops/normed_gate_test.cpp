#include "longbow/ops/normed_gate.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(NormedGate, IsItsDefinition) {
  const auto x = random_normal({2, 5, 12}, 1), other = random_normal({2, 5, 12}, 2),
             gate = random_normal({2, 5, 12}, 4), weight = random_normal({12}, 5);
  for (const int64_t groups : {1, 3}) {
    const auto normed = [&](const Tensor& t) {
      std::vector<Tensor> parts;
      for (const auto& part : (t * gate * at::sigmoid(gate)).chunk(groups, -1))
        parts.push_back(part / (part.pow(2).mean(-1, true) + 1e-2).sqrt());
      return at::cat(parts, -1) * weight;
    };
    EXPECT_NEAR_TENSOR(normed_gate(x, {}, gate, weight, groups, 1e-2), normed(x),
                       tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(normed_gate(x, other, gate, weight, groups, 1e-2), normed(x) + normed(other),
                       tolerance(at::kDouble));
  }
}

TEST(NormedGate, RoundsOnce) {
  const auto x = random_normal({3, 16}, 1).to(at::kBFloat16),
             other = random_normal({3, 16}, 2).to(at::kBFloat16);
  const auto weight = random_normal({16}, 3).to(at::kFloat), wide = x.to(at::kFloat);
  EXPECT_TRUE(
      normed_gate(x, other, x, weight, 1, 1e-5)
          .equal(normed_gate(wide, other.to(at::kFloat), wide, weight, 1, 1e-5).to(at::kBFloat16)));
}

TEST(NormedGate, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("normed_gate"), "");
}

TEST(NormedGate, RefusesOtherShapes) {
  const auto x = random_normal({3, 16}, 1), w = random_normal({16}, 1);
  EXPECT_EQ(error_of([&] {
              (void)normed_gate(x, {}, random_normal({3, 8}, 1), w, 1, 1);
            }),
            "normed_gate: x is [3, 16] but gate is [3, 8]");
  EXPECT_EQ(error_of([&] {
              (void)normed_gate(x, random_normal({3, 8}, 1), x, w, 1, 1);
            }),
            "normed_gate: x is [3, 16] but what goes with it is [3, 8]");
  EXPECT_EQ(error_of([&] { (void)normed_gate(x, {}, x, random_normal({4}, 1), 1, 1); }),
            "normed_gate: x is [3, 16] but weight is [4]");
  EXPECT_EQ(error_of([&] { (void)normed_gate(x, {}, x, w, 3, 1); }),
            "normed_gate: 16 channels in 3 groups");
}

}  // namespace
}  // namespace longbow
