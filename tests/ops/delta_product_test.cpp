#include "tests/ops/delta_products.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

using at::Tensor;

struct Arguments {
  Tensor q, k, v, beta, g, sums;
};
// Keys of length one, beta in 0..most.
Arguments arguments(int64_t length, double most = 1) {
  const auto k = random_normal({2, 3, length, 5}, 2);
  return {random_normal({2, 3, length, 5}, 1),
          k / k.norm(2, {-1}, true),
          random_normal({2, 3, length, 4}, 3),
          most * at::sigmoid(random_normal({2, 3, length, 1}, 4)),
          -random_normal({2, 3, length, 1}, 5).abs(),
          random_normal({2, 3, 5, 4}, 6)};
}

struct Result {
  Tensor out, sums;
};
Result product(const Arguments& a, int64_t chunk = 64) {
  Result result = {.sums = a.sums};
  result.out = chunk == 64
                   ? delta_product(a.q, a.k, a.v, a.beta, a.g, {}, result.sums)
                   : delta_product_formula(a.q, a.k, a.v, a.beta, a.g, {}, result.sums, chunk);
  return result;
}

Result recurrence(const Arguments& a) {
  Result result = {.sums = a.sums.defined() ? a.sums : at::zeros({2, 3, 5, 4}, at::kDouble)};
  result.out = delta_recurrence(a.q, a.k, a.v, a.beta, a.g, {}, result.sums);
  return result;
}

TEST(DeltaProduct, IsTheRecurrence) {
  for (const int64_t length : {1, 2, 3, 17, 63, 64, 65, 200})
    for (const double most : {1., 2.})
      for (const bool fades : {false, true}) {
        auto a = arguments(length, most);
        if (!fades) a.g = Tensor();
        const auto got = product(a), want = recurrence(a);
        EXPECT_NEAR_TENSOR(got.out, want.out, tolerance(at::kDouble)) << length;
        EXPECT_NEAR_TENSOR(got.sums, want.sums, tolerance(at::kDouble)) << length;
      }
}

TEST(DeltaProduct, BeginsWithNothingWhereThereAreNoSums) {
  auto a = arguments(70);
  a.sums = Tensor();
  EXPECT_NEAR_TENSOR(product(a).out, recurrence(a).out, tolerance(at::kDouble));
}

TEST(DeltaProduct, TheChunkDoesNotMatter) {
  const auto a = arguments(150);
  const auto want = product(a);
  for (const int64_t chunk : {1, 16, 50, 256}) {
    const auto got = product(a, chunk);
    EXPECT_NEAR_TENSOR(got.out, want.out, tolerance(at::kDouble)) << chunk;
    EXPECT_NEAR_TENSOR(got.sums, want.sums, tolerance(at::kDouble)) << chunk;
  }
}

TEST(DeltaProduct, ASequenceMayBeCutAnywhere) {
  const auto a = arguments(150);
  const auto want = product(a);
  for (const int64_t cut : {1, 63, 64, 149}) {
    auto sums = a.sums;
    const auto part = [&](int64_t start, int64_t count) {
      const auto of = [&](const Tensor& t) { return t.narrow(2, start, count); };
      return delta_product(of(a.q), of(a.k), of(a.v), of(a.beta), of(a.g), {}, sums);
    };
    const auto first = part(0, cut), second = part(cut, 150 - cut);
    EXPECT_NEAR_TENSOR(at::cat({first, second}, 2), want.out, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums, want.sums, tolerance(at::kDouble));
  }
}

// Each key is written twice with beta = 1, and what is read for it is the second value.
TEST(DeltaProduct, WithOrthonormalKeysItIsAStoreThatOverwrites) {
  const auto k = at::eye(5, at::kDouble).repeat({2, 1}).view({1, 10, 5}),
             v = random_normal({1, 10, 4}, 7);
  Tensor sums;
  (void)delta_product(k, k, v, at::ones({1, 10, 1}, at::kDouble), {}, {}, sums);
  EXPECT_NEAR_TENSOR(sums, v.narrow(1, 5, 5), tolerance(at::kDouble));
}

TEST(DeltaProduct, WithOrthogonalKeysItIsLinearAttentionOfTheWeighedValues) {
  const auto k = at::eye(8, at::kDouble).view({1, 8, 8}), q = random_normal({1, 8, 8}, 8),
             v = random_normal({1, 8, 4}, 9), beta = at::sigmoid(random_normal({1, 8, 1}, 10));
  Tensor sums;
  EXPECT_NEAR_TENSOR(delta_product(q, k, v, beta, {}, {}, sums),
                     q.matmul(k.transpose(1, 2)).tril().matmul(beta * v), tolerance(at::kDouble));
}

TEST(DeltaProduct, WithoutWritingTheSumsStayAsTheyAre) {
  auto a = arguments(100);
  a.beta = at::zeros_like(a.beta);
  a.g = Tensor();
  const auto got = product(a);
  EXPECT_NEAR_TENSOR(got.out, a.q.matmul(a.sums), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(got.sums, a.sums, tolerance(at::kDouble));
}

// In float32: what follows a decay of nothing is as exact as without it.
TEST(DeltaProduct, ForgetsEverythingExactly) {
  auto a = arguments(150);
  a.g = a.g * 1e-2;
  a.g.select(2, 37).fill_(-1e30);
  a.g.select(2, 100).fill_(-700);
  const auto want = recurrence(a).out;
  for (auto* t : {&a.q, &a.k, &a.v, &a.beta, &a.g, &a.sums}) *t = t->to(at::kFloat);
  const auto got = product(a).out;
  EXPECT_NEAR_TENSOR(got, want, (Tolerance{.absolute = 2e-5}));
  auto others = a;
  others.v = a.v.clone();
  others.v.narrow(2, 0, 37).add_(1);
  EXPECT_TRUE(product(others).out.narrow(2, 37, 113).equal(got.narrow(2, 37, 113)));
}

TEST(DeltaProduct, LaterTokensHaveNoInfluence) {
  auto a = arguments(150);
  const auto before = product(a).out.narrow(2, 0, 70);
  for (auto* t : {&a.q, &a.k, &a.v, &a.beta, &a.g}) {
    *t = t->clone();
    t->narrow(2, 70, 80).mul_(3);
  }
  EXPECT_TRUE(product(a).out.narrow(2, 0, 70).equal(before));
}

// In float32, with keys that nearly repeat, beta up to 2 and no decay: each step is a reflection.
TEST(DeltaProduct, ALongSequenceStaysExact) {
  auto a = arguments(1500, 2);
  a.g = Tensor();
  const auto close = random_normal({2, 3, 1, 5}, 11) + 0.1 * a.k;
  a.k = close / close.norm(2, {-1}, true);
  const auto want = recurrence(a);
  for (auto* t : {&a.q, &a.k, &a.v, &a.beta, &a.sums}) *t = t->to(at::kFloat);
  const auto got = product(a);
  const auto scale = want.out.abs().max().item<double>();
  EXPECT_NEAR_TENSOR(got.out, want.out, (Tolerance{.absolute = 1e-4 * scale}));
}

TEST(DeltaProduct, GradientsAreThoseOfDifferences) {
  const auto a = arguments(70);
  const std::vector<Leaf> leaves = {
      {"q", a.q.requires_grad_()},          {"k", a.k.detach().requires_grad_()},
      {"v", a.v.requires_grad_()},          {"beta", a.beta.detach().requires_grad_()},
      {"g", a.g.detach().requires_grad_()}, {"sums", a.sums.requires_grad_()}};
  const auto computed = [&] {
    auto sums = leaves[5].tensor;
    const auto out = delta_product_formula(leaves[0].tensor, leaves[1].tensor, leaves[2].tensor,
                                           leaves[3].tensor, leaves[4].tensor, {}, sums, 16);
    return at::cat({out.flatten(), sums.flatten()});
  };
  EXPECT_TRUE(gradcheck(computed, leaves));
}

TEST(DeltaProduct, AnEmptySequenceLeavesTheSums) {
  const auto a = arguments(0);
  const auto got = product(a);
  EXPECT_EQ(got.out.sizes(), a.v.sizes());
  EXPECT_TRUE(got.sums.equal(a.sums));
}

TEST(DeltaProduct, RefusesOtherShapes) {
  auto a = arguments(7);
  EXPECT_EQ(error_of([&] { (void)product(a, 0); }), "delta_product: a chunk of 0 tokens");
  a.g = a.g.narrow(2, 0, 6);
  EXPECT_EQ(error_of([&] { (void)product(a); }),
            "delta_product: q is [2, 3, 7, 5] but log_decay is [2, 3, 6, 1]");
  a.beta = a.v;
  EXPECT_EQ(error_of([&] { (void)product(a); }),
            "delta_product: q is [2, 3, 7, 5] but v is [2, 3, 7, 4] and beta [2, 3, 7, 4]");
  a.k = a.v;
  EXPECT_EQ(error_of([&] { (void)product(a); }),
            "delta_product: q is [2, 3, 7, 5] but k is [2, 3, 7, 4]");
}

TEST(DeltaProduct, ReversedTheLastTokenIsTheFirst) {
  const auto a = arguments(150, 2);
  auto got = a.sums, want = a.sums;
  const DeltaProduct how = {.scale = 0.3, .reversed = true};
  EXPECT_NEAR_TENSOR(delta_product(a.q, a.k, a.v, a.beta, a.g, how, got),
                     delta_recurrence(a.q, a.k, a.v, a.beta, a.g, how, want),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
}

TEST(DeltaProduct, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("delta_product"), "");
}

}  // namespace
}  // namespace longbow
