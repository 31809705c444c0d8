#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/decayed_products.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

using at::Tensor;

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
const std::vector<std::string> kNames = {"out", "sums", "dx", "dy", "dz", "dg", "dsums"};

// The definition in float64 of numbers that were rounded to bfloat16, the formula in float32, and
// the kernels.
void expect_near_definition(DecayedInputs in, const DecayedProduct& how, const std::string& what) {
  SCOPED_TRACE(what);
  for (auto* t : {&in.x, &in.y, &in.z, &in.dout}) *t = t->to(at::kBFloat16).to(at::kDouble);
  ASSERT_TRUE(has_decay_kernel(in.x.to(kOnGpu), in.y.to(kOnGpu), in.z.to(kOnGpu),
                               in.g.to(kOnGpu.dtype(at::kFloat)), how.fading));
  const auto by = [&](const auto& product) {
    return [&how, product](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g,
                           Tensor& sums) { return product(x, y, z, g, how, sums); };
  };
  const auto formula = [](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g,
                          const DecayedProduct& options, Tensor& sums) {
    return decayed_product_formula(x, y, z, g, options, sums);
  };
  const auto want = decayed_results(in, at::kDouble, by(decayed_recurrence)),
             plain = decayed_results(in, kOnGpu.dtype(at::kFloat), by(formula)),
             got = decayed_results(in, kOnGpu, by(decayed_product));
  const bool one = in.x.size(2) == 1;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(roundings(got[i], want[i], one), 4) << kNames[i];
    EXPECT_LT(roundings(plain[i], want[i], one), 0.1) << kNames[i] << " of the formula";
  }
}

TEST(DecayedProductCuda, IsItsDefinitionForAllLengths) {
  for (const int64_t n : {1, 15, 16, 63, 64, 65, 130, 1000})
    for (const bool reversed : {false, true})
      expect_near_definition({2, 3, n, 32, 64, 32}, {.scale = 0.2, .reversed = reversed},
                             c10::str(n, " tokens", reversed ? ", reversed" : ""));
}

TEST(DecayedProductCuda, IsItsDefinitionForAllWidths) {
  for (const auto& [p, q] : {std::pair{8, 8}, {24, 40}, {32, 32}, {64, 64}, {40, 64}, {64, 24}})
    for (const int64_t decays : {p, 1})
      for (const double strength : {0.01, 1.0, 8.0})
        expect_near_definition({1, 2, 200, p, q, decays, strength}, {.fading = Fading::rows},
                               c10::str(p, " x ", q, ", ", decays, " decays of ", strength));
}

TEST(DecayedProductCuda, IsItsDefinitionForBlocksOfColumns) {
  for (const auto& [n, blocks] : {std::pair{1, 2}, {63, 3}, {128, 1}, {129, 2}, {1000, 2}})
    for (const auto& [p, r] : {std::pair{128, 64}, {32, 64}, {40, 24}, {64, 8}})
      for (const bool reversed : {false, true})
        expect_near_definition(
            {2, 2, n, p, blocks * r, blocks, 0.05},
            {.fading = Fading::columns, .scale = 0.1, .reversed = reversed},
            c10::str(n, " tokens, ", p, " x ", blocks, " x ", r, reversed ? ", reversed" : ""));
}

TEST(DecayedProductCuda, BothWaysAtOnceAreTwoCalls) {
  for (const int64_t n : {2, 63, 200})
    for (const auto& [p, q, decays] : {std::tuple{32, 64, 32}, {64, 40, 64}, {24, 64, 1}}) {
      SCOPED_TRACE(c10::str(n, " tokens, ", p, " x ", q, ", ", decays, " decays"));
      const auto found = both_ways({2, 3, n, p, q, decays}, kOnGpu, {.scale = 0.2});
      for (size_t i = 0; i < found[0].size(); ++i)
        EXPECT_LT(roundings(found[0][i], found[1][i], false), i < 2 ? 1e-9 : 2) << i;
    }
}

TEST(DecayedProductCuda, GradientsLieBesideEachOther) {
  const DecayedInputs in(2, 3, 70, 32, 64, 32);
  std::vector<Tensor> leaves = {in.x.to(kOnGpu), in.y.to(kOnGpu), in.z.to(kOnGpu),
                                in.g.to(kOnGpu.dtype(at::kFloat))};
  for (auto& leaf : leaves) leaf.requires_grad_();
  const auto [forth, back] = decayed_products(leaves[0], leaves[1], leaves[2], leaves[3], {});
  const auto found = torch::autograd::grad({forth + back}, leaves, {in.dout.to(kOnGpu)});
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_TRUE(found[i].is_alias_of(found[0])) << i;
    EXPECT_EQ(found[i].stride(2), 3 * (32 + 32 + 64)) << i;
  }
}

TEST(DecayedProductCuda, ForgetsEverythingExactly) {
  DecayedInputs in(1, 2, 150, 32, 64, 32, 0.01);
  in.g.select(2, 37).fill_(-1e30);
  in.g.select(2, 100).fill_(-700);
  expect_near_definition(in, {}, "two tokens forget");
  DecayedInputs blocks(1, 2, 150, 32, 64, 2, 0.01);
  blocks.g.select(2, 37).fill_(-1e30);
  blocks.g.select(2, 100).fill_(-700);
  expect_near_definition(blocks, {.fading = Fading::columns}, "two tokens forget, by blocks");
  const auto out = [&](const Tensor& y) {
    auto sums = in.sums.to(kOnGpu.dtype(at::kFloat));
    return decayed_product(in.x.to(kOnGpu), y.to(kOnGpu), in.z.to(kOnGpu),
                           in.g.to(kOnGpu.dtype(at::kFloat)), {}, sums);
  };
  auto others = in.y.clone();
  others.narrow(2, 0, 37).mul_(100);
  EXPECT_TRUE(out(others).narrow(2, 37, 113).equal(out(in.y).narrow(2, 37, 113)));
}

TEST(DecayedProductCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const auto x = random_normal({1, 2, 300, 32}, 1).to(kOnGpu),
             z = random_normal({1, 2, 300, 64}, 2).to(kOnGpu),
             g = (random_normal({1, 2, 300, 32}, 3).abs() * -0.1).to(kOnGpu.dtype(at::kFloat));
  const auto product = [](const Tensor& a, const Tensor& b, const Tensor& decays) {
    Tensor sums;
    return decayed_product(a, a, b, decays, {}, sums);
  };
  for (const int64_t n : {1, 70, 200}) {
    const auto later = [&](const Tensor& t) {
      auto other = t.clone();
      other.narrow(2, n, 300 - n).mul_(100);
      return other;
    };
    EXPECT_NEAR_TENSOR(product(later(x), later(z), later(g)).narrow(2, 0, n).cpu(),
                       product(x, z, g).narrow(2, 0, n).cpu(), kExact);
  }
}

TEST(DecayedProductCuda, TakesHeadsBesideEachOtherAndOddAddresses) {
  const auto x = random_normal({2, 100, 3, 32}, 1).to(kOnGpu);
  const auto g = (random_normal({2, 100, 3, 32}, 2).abs() * -0.1).to(kOnGpu.dtype(at::kFloat));
  const auto product = [](const Tensor& a, const Tensor& decays) {
    Tensor sums;
    return decayed_product(a, a, a, decays, {}, sums);
  };
  const auto heads = x.transpose(1, 2), decays = g.transpose(1, 2);
  const auto want = product(heads.contiguous(), decays.contiguous()), got = product(heads, decays);
  EXPECT_TRUE(got.transpose(1, 2).is_contiguous());
  EXPECT_NEAR_TENSOR(got.cpu(), want.cpu(), kExact);
  const auto wide = at::constant_pad_nd(x, {1, 2}).narrow(-1, 1, 32).transpose(1, 2);
  EXPECT_NEAR_TENSOR(product(wide, decays).cpu(), want.cpu(), kExact);
}

TEST(DecayedProductCuda, UsesTheFormulaForOtherShapes) {
  for (const auto& [p, q] : {std::pair{5, 8}, {32, 72}, {136, 64}}) {
    const auto x = random_normal({1, 2, 70, p}, 1).to(kOnGpu),
               z = random_normal({1, 2, 70, q}, 2).to(kOnGpu),
               g = (random_normal({1, 2, 70, p}, 3).abs() * -0.1).to(kOnGpu.dtype(at::kFloat));
    Tensor sums, same;
    EXPECT_FALSE(has_decay_kernel(x, x, z, g, Fading::rows));
    EXPECT_NEAR_TENSOR(decayed_product(x, x, z, g, {}, sums).cpu(),
                       decayed_product_formula(x, x, z, g, {}, same).cpu(), kExact);
  }
}

TEST(DecayedProductCuda, IsTheSameEveryTimeAndInAGraph) {
  const DecayedInputs in(1, 2, 3000, 32, 64, 32);
  const auto product = [](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g,
                          Tensor& sums) { return decayed_product(x, y, z, g, {}, sums); };
  const auto first = decayed_results(in, kOnGpu, product),
             again = decayed_results(in, kOnGpu, product);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR_TENSOR(again[i], first[i], kExact);

  const auto x = in.x.to(kOnGpu), z = in.z.to(kOnGpu), g = in.g.to(kOnGpu.dtype(at::kFloat));
  Tensor y, none;
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    auto sums = none;
    y = product(x, x, z, g, sums);
    graph.capture_end();
  }
  x.copy_(in.y);
  graph.replay();
  c10::cuda::device_synchronize();
  auto sums = none;
  EXPECT_NEAR_TENSOR(y.cpu(), product(x, x, z, g, sums).cpu(), kExact);
}

// As a decoding step does, with sums of before and without.
TEST(DecayedProductCuda, TakesASingleToken) {
  const auto wide = at::TensorOptions(at::kFloat).device("cuda:0");
  const auto x = random_normal({2, 3, 1, 8}, 1), y = random_normal({2, 3, 1, 8}, 2),
             z = random_normal({2, 3, 1, 12}, 3), before = random_normal({2, 3, 8, 12}, 4);
  for (const auto& [fading, decays] :
       {std::pair{Fading::rows, 8}, {Fading::rows, 1}, {Fading::columns, 3}})
    for (const bool begun : {false, true}) {
      SCOPED_TRACE(c10::str(decays, " decays, ", begun));
      const auto g = -random_normal({2, 3, 1, decays}, 5).abs();
      const DecayedProduct how = {.fading = fading, .scale = 0.5};
      auto want_sums = begun ? before : Tensor(), sums = begun ? before.to(wide) : Tensor();
      const auto want = decayed_product_formula(x, y, z, g, how, want_sums),
                 got = decayed_product(x.to(wide), y.to(wide), z.to(wide), g.to(wide), how, sums);
      EXPECT_NEAR_TENSOR(got.cpu().to(at::kDouble), want, (Tolerance{1e-5, 1e-5}));
      EXPECT_NEAR_TENSOR(sums.cpu().to(at::kDouble), want_sums, (Tolerance{1e-5, 1e-5}));
    }
}

}  // namespace
}  // namespace longbow
