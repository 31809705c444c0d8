#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "tests/ops/delta_products.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

using at::Tensor;

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
const std::vector<std::string> kNames = {"out", "sums", "dq", "dk", "dv", "dbeta", "dsums", "dg"};

struct Inputs {
  Tensor q, k, v, beta, sums, g, dout, dsums;  // float64; g undefined = nothing fades
  Inputs(int64_t b, int64_t h, int64_t n, int64_t p, int64_t d, double most, double strength)
      : q(unit(random_normal({b, h, n, p}, 1))),
        k(unit(random_normal({b, h, n, p}, 2) + 0.2)),
        v(random_normal({b, h, n, d}, 3) + 0.3),
        beta(at::sigmoid(random_normal({b, h, n, 1}, 4)) * most),
        sums(random_normal({b, h, p, d}, 5) * 0.3),
        dout(random_normal({b, h, n, d}, 6)),
        dsums(random_normal({b, h, p, d}, 7)) {
    if (strength > 0) g = random_normal({b, h, n, 1}, 8).abs() * -strength;
    for (auto* t : {&q, &k, &v, &dout}) *t = t->to(at::kBFloat16).to(at::kDouble);
  }
  static Tensor unit(const Tensor& x) { return x / x.norm(2, {-1}, true); }
};

// out, the sums after the last token, and all gradients; float64, on the CPU.
template <class F>
std::vector<Tensor> results(const Inputs& in, const DeltaProduct& how,
                            const at::TensorOptions& numbers, const F& product) {
  const auto wide = numbers.dtype(numbers.dtype() == at::kDouble ? at::kDouble : at::kFloat);
  std::vector<Tensor> leaves;
  for (const auto& t : {in.q, in.k, in.v}) leaves.push_back(t.to(numbers, false, true));
  for (const auto& t : {in.beta, in.sums}) leaves.push_back(t.to(wide, false, true));
  if (in.g.defined()) leaves.push_back(in.g.to(wide, false, true));
  for (auto& leaf : leaves) leaf.requires_grad_();
  auto sums = leaves[4];
  const auto out = product(leaves[0], leaves[1], leaves[2], leaves[3],
                           in.g.defined() ? leaves[5] : Tensor(), how, sums);
  ((out * in.dout.to(out.options())).sum() + (sums * in.dsums.to(sums.options())).sum()).backward();
  std::vector<Tensor> found = {out.detach(), sums.detach()};
  for (const auto& leaf : leaves) found.push_back(leaf.grad());
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

// The definition in float64 of numbers that were rounded to bfloat16, the formula in float32, and
// the kernels.
void expect_near_definition(const Inputs& in, const DeltaProduct& how, const std::string& what) {
  SCOPED_TRACE(what);
  const auto there = [](const Tensor& t) {
    return t.defined() ? t.to(kOnGpu.dtype(at::kFloat)) : t;
  };
  ASSERT_TRUE(has_delta_kernel(in.q.to(kOnGpu), in.k.to(kOnGpu), in.v.to(kOnGpu), there(in.beta),
                               there(in.g)));
  const auto formula = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                          const Tensor& g, const DeltaProduct& options, Tensor& sums) {
    return delta_product_formula(q, k, v, beta, g, options, sums);
  };
  const auto want = results(in, how, at::kDouble, delta_recurrence),
             plain = results(in, how, kOnGpu.dtype(at::kFloat), formula),
             got = results(in, how, kOnGpu, delta_product);
  const bool one = in.q.size(2) == 1;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(roundings(got[i], want[i], one), 8) << kNames[i];
    EXPECT_LT(roundings(plain[i], want[i], one), 0.1) << kNames[i] << " of the formula";
  }
}

TEST(DeltaProductCuda, IsItsDefinitionForAllLengths) {
  for (const int64_t n : {1, 15, 63, 64, 65, 130, 1000})
    for (const double strength : {0.0, 0.1})
      for (const bool reversed : {false, true})
        expect_near_definition(
            {2, 3, n, 64, 64, 1, strength}, {.scale = 0.125, .reversed = reversed},
            c10::str(n, " tokens, decays of ", strength, reversed ? ", reversed" : ""));
}

TEST(DeltaProductCuda, IsItsDefinitionForAllWidths) {
  for (const auto& [p, d] : {std::pair{24, 40}, {32, 64}, {64, 24}})
    for (const double most : {1.0, 2.0})
      for (const double strength : {0.0, 1.0})
        expect_near_definition({1, 2, 200, p, d, most, strength}, {},
                               c10::str(p, " x ", d, ", beta up to ", most));
}

TEST(DeltaProductCuda, ForgetsEverythingExactly) {
  Inputs in(1, 2, 150, 64, 64, 1, 0.01);
  in.g.select(2, 37).fill_(-1e30);
  in.g.select(2, 100).fill_(-700);
  expect_near_definition(in, {}, "two tokens forget");
}

TEST(DeltaProductCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const Inputs in(1, 2, 300, 64, 64, 1, 0);
  const auto product = [](const Inputs& of) {
    Tensor sums;
    return delta_product(of.q.to(kOnGpu), of.k.to(kOnGpu), of.v.to(kOnGpu),
                         of.beta.to(kOnGpu.dtype(at::kFloat)), {}, {}, sums);
  };
  for (const int64_t n : {1, 70, 200}) {
    auto later = in;
    for (auto* t : {&later.q, &later.k, &later.v, &later.beta}) {
      *t = t->clone();
      t->narrow(2, n, 300 - n).mul_(0.5);
    }
    EXPECT_NEAR_TENSOR(product(later).narrow(2, 0, n).cpu(), product(in).narrow(2, 0, n).cpu(),
                       kExact);
  }
}

TEST(DeltaProductCuda, UsesTheFormulaForOtherShapes) {
  for (const auto& [p, d] : {std::pair{5, 8}, {8, 8}, {64, 72}, {72, 64}}) {
    const Inputs in(1, 2, 70, p, d, 1, 0);
    const auto q = in.q.to(kOnGpu), v = in.v.to(kOnGpu),
               beta = in.beta.to(kOnGpu.dtype(at::kFloat));
    Tensor sums, same;
    EXPECT_FALSE(has_delta_kernel(q, q, v, beta, {}));
    EXPECT_NEAR_TENSOR(delta_product(q, q, v, beta, {}, {}, sums).cpu(),
                       delta_product_formula(q, q, v, beta, {}, {}, same).cpu(), kExact);
  }
}

TEST(DeltaProductCuda, IsTheSameEveryTimeAndInAGraph) {
  const Inputs in(1, 2, 3000, 64, 64, 1, 0.1);
  const auto first = results(in, {}, kOnGpu, delta_product),
             again = results(in, {}, kOnGpu, delta_product);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR_TENSOR(again[i], first[i], kExact);

  const auto q = in.q.to(kOnGpu), k = in.k.to(kOnGpu), v = in.v.to(kOnGpu),
             beta = in.beta.to(kOnGpu.dtype(at::kFloat));
  Tensor y;
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    Tensor sums;
    y = delta_product(q, k, v, beta, {}, {}, sums);
    graph.capture_end();
  }
  q.copy_(in.k);
  graph.replay();
  c10::cuda::device_synchronize();
  Tensor sums;
  EXPECT_NEAR_TENSOR(y.cpu(), delta_product(q, k, v, beta, {}, {}, sums).cpu(), kExact);
}

}  // namespace
}  // namespace longbow
