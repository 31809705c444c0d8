#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "longbow/ops/random_product.h"
#include "tests/ops/random_products.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

constexpr auto kExponential = RandomMap::exponential, kTrigonometric = RandomMap::trigonometric;
const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
const std::vector<std::string> kNames = {"out", "dq", "dk", "dv", "dsigma"};

// The definition in float64 of numbers that were rounded to bfloat16.
void expect_near_definition(RandomInputs in, RandomMap map, const at::Tensor& keep,
                            const std::string& what, bool causal = false) {
  SCOPED_TRACE(what + (map == kExponential ? ", exponential" : ", trigonometric"));
  for (auto* t : {&in.q, &in.k, &in.v, &in.g, &in.omega, &in.sigma})
    *t = t->to(at::kBFloat16).to(at::kDouble);
  ASSERT_TRUE(has_random_kernel(in.q.to(kOnGpu), in.k.to(kOnGpu), in.v.to(kOnGpu), map,
                                in.omega.size(1), causal));
  const auto how = in.way(map, keep, causal);
  const auto want = random_results(in, how, at::kDouble, dense_random_product),
             got = random_results(in, how, kOnGpu, random_product);
  for (size_t i = 0; i < want.all.size(); ++i)
    EXPECT_LT(roundings(got.all[i], want.all[i], in.k.size(2) == 1), 8) << kNames[i];
}

TEST(RandomProductCuda, IsItsDefinitionForAllLengths) {
  for (const auto map : {kExponential, kTrigonometric})
    for (const int64_t n : {1, 7, 64, 65, 1000})
      for (const int64_t m : {1, 63, 130, 1000})
        expect_near_definition({2, 3, n, m, 64, 64, 64}, map, {},
                               std::to_string(n) + " queries, " + std::to_string(m) + " keys");
}

TEST(RandomProductCuda, IsItsDefinitionForAllWidths) {
  for (const auto& [e, d, p] : {std::tuple{8, 8, 5}, {24, 40, 30}, {32, 32, 111}, {64, 64, 190}})
    for (const auto map : {kExponential, kTrigonometric})
      expect_near_definition({1, 2, 70, 90, e, d, p}, map, {}, c10::str(e, " x ", d, ", ", p));
  for (const int64_t p : {256, 266, 384})
    expect_near_definition({1, 2, 70, 90, 64, 64, p}, kExponential, {}, c10::str(p, " features"));
}

TEST(RandomProductCuda, IsItsDefinitionUnderACausalMask) {
  for (const int64_t n : {1, 7, 64, 65, 256, 257, 1000})
    for (const auto& [e, d, p] : {std::tuple{64, 64, 64}, {24, 40, 30}}) {
      auto keep = random_normal({2, n}, 9) > -1;
      keep.select(1, 0).fill_(true);
      expect_near_definition({2, 2, n, n, e, d, p}, kTrigonometric, keep,
                             c10::str(n, " tokens, ", e, " x ", d), true);
      if (n == 1000) continue;
      expect_near_definition({2, 2, n, n, e, d, p == 30 ? p : 266}, kExponential, keep,
                             c10::str(n, " tokens, ", e, " x ", d), true);
    }
  expect_near_definition({1, 1, 600, 600, 64, 64, 384}, kExponential, {}, "384 features", true);
}

TEST(RandomProductCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const RandomInputs in(1, 2, 600, 600, 64, 64, 64);
  for (const auto map : {kExponential, kTrigonometric}) {
    auto how = in.way(map, {}, true);
    for (auto* t : {&how.omega, &how.sigma})
      if (t->defined()) *t = t->to(kOnGpu);
    if (how.least.defined()) how.least = how.least.cuda();
    const auto x = in.q.to(kOnGpu);
    const auto results = [&](const at::Tensor& keys, int64_t n) {  // and gradients, of the first n
      const auto q = x.clone().requires_grad_(), k = keys.clone().requires_grad_();
      const auto y = random_product(q, k, k, how).narrow(2, 0, n);
      y.backward(in.g.to(kOnGpu).narrow(2, 0, n));
      return at::cat({y.detach(), q.grad().narrow(2, 0, n), k.grad().narrow(2, 0, n)}, 3).cpu();
    };
    for (const int64_t n : {1, 70, 300}) {
      auto later = x.clone();
      later.narrow(2, n, 600 - n).mul_(-3);
      EXPECT_NEAR_TENSOR(results(later, n), results(x, n), kExact);
    }
  }
}

TEST(RandomProductCuda, PaddedKeysAreNotThere) {
  auto keep = random_normal({3, 200}, 9) > 0;
  for (const auto map : {kExponential, kTrigonometric}) {
    expect_near_definition({3, 2, 100, 200, 64, 64, 64}, map, keep, "holes");
    RandomInputs in(3, 2, 100, 200, 64, 64, 64);
    auto empty = keep.clone();
    empty[1].fill_(false);  // a row of padding alone
    const auto how = in.way(map, empty);
    const auto padded = empty.logical_not().unsqueeze(1).unsqueeze(-1);
    const auto first = random_results(in, how, kOnGpu, random_product);
    in.k = in.k.masked_fill(padded, 1e30);
    in.v = in.v.masked_fill(padded, -7);
    const auto second = random_results(in, how, kOnGpu, random_product);
    EXPECT_NEAR_TENSOR(second.all[0], first.all[0], kExact);
    EXPECT_NEAR_TENSOR(second.all[1], first.all[1], kExact);
    EXPECT_NEAR_TENSOR(first.all[0][1], at::zeros_like(first.all[0][1]), kExact);
    EXPECT_NEAR_TENSOR(first.all[1][1], at::zeros_like(first.all[1][1]), kExact);
    for (const size_t i : {2, 3})
      EXPECT_NEAR_TENSOR(second.all[i] * padded, at::zeros_like(first.all[i]), kExact);
  }
}

TEST(RandomProductCuda, LargeExponentsCancel) {
  RandomInputs in(1, 2, 100, 150, 64, 64, 100);
  in.q = in.q * 20;
  in.k = in.k * 20;
  for (const auto& t : random_results(in, in.way(kExponential), kOnGpu, random_product).all)
    EXPECT_TRUE(t.isfinite().all().item<bool>());
  RandomInputs same(1, 2, 300, 300, 64, 64, 100);
  same.k = same.k * 20;
  const auto how = same.way(kExponential, {}, true);
  for (const auto& t : random_results(same, how, kOnGpu, random_product).all)
    EXPECT_TRUE(t.isfinite().all().item<bool>());
}

TEST(RandomProductCuda, IsTheSameEveryTimeAndInAGraph) {
  const RandomInputs in(1, 2, 3000, 3000, 64, 64, 64);
  for (const auto map : {kExponential, kTrigonometric}) {
    auto how = in.way(map);
    const auto first = random_results(in, how, kOnGpu, random_product),
               again = random_results(in, how, kOnGpu, random_product);
    for (size_t i = 0; i < first.all.size(); ++i)
      EXPECT_NEAR_TENSOR(again.all[i], first.all[i], kExact);

    const auto x = in.q.to(kOnGpu);
    for (auto* t : {&how.omega, &how.sigma, &how.least})
      if (t->defined()) *t = t->to(kOnGpu);
    at::Tensor y;
    at::cuda::CUDAGraph graph;
    {
      const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
      graph.capture_begin();
      y = random_product(x, x, x, how);
      graph.capture_end();
    }
    x.copy_(in.k);
    graph.replay();
    c10::cuda::device_synchronize();
    EXPECT_NEAR_TENSOR(y.cpu(), random_product(x, x, x, how).cpu(), kExact);
  }
}

}  // namespace
}  // namespace longbow
