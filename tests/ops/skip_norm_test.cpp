#include "longbow/ops/skip_norm.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(SkipNorm, IsItsDefinition) {
  const auto o = random_normal({2, 5, 12}, 1), x = random_normal({2, 5, 12}, 2),
             skip = random_normal({12}, 3), gate = random_normal({2, 5, 12}, 4),
             weight = random_normal({12}, 5);
  for (const int64_t groups : {1, 3}) {
    const auto u = (o + skip * x) * gate * at::sigmoid(gate);
    std::vector<Tensor> parts;
    for (const auto& part : u.chunk(groups, -1))
      parts.push_back(part / (part.pow(2).mean(-1, true) + 1e-2).sqrt());
    EXPECT_NEAR_TENSOR(skip_norm(o, x, skip, gate, weight, groups, 1e-2),
                       at::cat(parts, -1) * weight, tolerance(at::kDouble));
  }
}

TEST(SkipNorm, RoundsOnce) {
  const auto x = random_normal({3, 16}, 1).to(at::kBFloat16);
  const auto weight = random_normal({16}, 3).to(at::kFloat), wide = x.to(at::kFloat);
  EXPECT_TRUE(skip_norm(x, x, weight, x, weight, 1, 1e-5)
                  .equal(skip_norm(wide, wide, weight, wide, weight, 1, 1e-5).to(at::kBFloat16)));
}

TEST(SkipNorm, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("skip_norm"), "");
}

TEST(SkipNorm, RefusesOtherShapes) {
  const auto x = random_normal({3, 16}, 1), w = random_normal({16}, 1);
  EXPECT_EQ(error_of([&] {
              (void)skip_norm(x, random_normal({3, 8}, 1), w, x, w, 1, 1);
            }),
            "skip_norm: o is [3, 16] but x is [3, 8] and gate [3, 16]");
  EXPECT_EQ(error_of([&] { (void)skip_norm(x, x, random_normal({4}, 1), x, w, 1, 1); }),
            "skip_norm: o is [3, 16] but skip is [4] and weight [16]");
  EXPECT_EQ(error_of([&] { (void)skip_norm(x, x, w, x, w, 3, 1); }),
            "skip_norm: 16 channels in 3 groups");
}

}  // namespace
}  // namespace longbow
