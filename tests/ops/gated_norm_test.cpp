#include "longbow/ops/gated_norm.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// The definition, part by part.
Tensor definition(const Tensor& x, const Tensor& other, const Tensor& gate, const Tensor& weight) {
  std::vector<Tensor> parts;
  for (int64_t at = 0; at < x.size(-1); at += weight.size(0)) {
    const auto part = [&](const Tensor& t) { return t.narrow(-1, at, weight.size(0)); };
    const auto normed = [&](const Tensor& t) {
      return part(t) / (part(t).pow(2).mean(-1, true) + 1e-2).sqrt();
    };
    auto y = normed(x) * weight;
    if (other.defined()) y = y + normed(other) * weight;
    if (gate.defined()) y = y * part(gate) * at::sigmoid(part(gate));
    parts.push_back(y);
  }
  return at::cat(parts, -1);
}

TEST(GatedNorm, IsItsDefinitionAndItsGradients) {
  for (const bool second : {false, true})
    for (const bool gated : {false, true}) {
      const auto probe = random_normal({2, 5, 12}, 9);
      const auto found = [&](const auto& compute) {
        std::vector<Tensor> leaves = {random_normal({2, 5, 12}, 1), random_normal({2, 5, 12}, 2),
                                      random_normal({2, 5, 12}, 3), random_normal({4}, 4)};
        for (auto& leaf : leaves) leaf.requires_grad_();
        const auto y = compute(leaves[0], second ? leaves[1] : Tensor(),
                               gated ? leaves[2] : Tensor(), leaves[3]);
        (y * probe).sum().backward();
        std::vector<Tensor> all = {y.detach(), leaves[0].grad(), leaves[3].grad()};
        if (second) all.push_back(leaves[1].grad());
        if (gated) all.push_back(leaves[2].grad());
        return all;
      };
      const auto got = found([](const Tensor&x, const Tensor&other, const Tensor&gate,
                                const Tensor&w) { return gated_norm(x, other, gate, w, 1e-2); }),
                 want = found(definition);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
    }
}

TEST(GatedNorm, RoundsOnce) {
  const auto x = random_normal({3, 16}, 1).to(at::kBFloat16),
             gate = random_normal({3, 16}, 2).to(at::kBFloat16);
  const auto weight = random_normal({8}, 3).to(at::kFloat);
  const auto got = gated_norm(x, {}, gate, weight, 1e-5);
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(got.equal(
      gated_norm(x.to(at::kFloat), {}, gate.to(at::kFloat), weight, 1e-5).to(at::kBFloat16)));
}

TEST(GatedNorm, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("gated_norm"), "");
}

TEST(GatedNorm, RefusesOtherShapes) {
  const auto x = random_normal({3, 16}, 1);
  EXPECT_EQ(error_of([&] { (void)gated_norm(x, {}, {}, random_normal({5}, 1), 1e-5); }),
            "gated_norm: x is [3, 16] but weight is [5]");
  EXPECT_EQ(error_of([&] {
              (void)gated_norm(x, {}, random_normal({3, 8}, 1), random_normal({8}, 1), 1);
            }),
            "gated_norm: x is [3, 16] but what goes with it is [3, 8]");
}

}  // namespace
}  // namespace longbow
