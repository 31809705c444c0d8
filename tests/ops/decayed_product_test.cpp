#include "tests/ops/decayed_products.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

using at::Tensor;

struct Arguments {
  Tensor x, y, z, g, sums;
};
Arguments arguments(int64_t length, int64_t p, int64_t q, int64_t decays) {
  return {random_normal({2, 3, length, p}, 1), random_normal({2, 3, length, p}, 2),
          random_normal({2, 3, length, q}, 3), -random_normal({2, 3, length, decays}, 4).abs(),
          random_normal({2, 3, p, q}, 5)};
}

struct Result {
  Tensor out, sums;
};
Result product(const Arguments& a, Fading fading) {
  Result result = {.sums = a.sums};
  result.out = decayed_product(a.x, a.y, a.z, a.g, {.fading = fading}, result.sums);
  return result;
}

Result recurrence(const Arguments& a, Fading fading) {
  Result result = {
      .sums = a.sums.defined() ? a.sums : at::zeros({2, 3, a.x.size(3), a.z.size(3)}, at::kDouble)};
  result.out = decayed_recurrence(a.x, a.y, a.z, a.g, {.fading = fading}, result.sums);
  return result;
}

TEST(DecayedProduct, IsTheRecurrence) {
  for (const auto fading : {Fading::rows, Fading::columns})
    for (const int64_t length : {1, 2, 3, 17, 63, 64, 65, 200})
      for (const int64_t decays : {1, 2, 4, 5}) {
        if (decays > 1 && (fading == Fading::rows) != (decays == 5)) continue;
        const auto a = arguments(length, 5, 4, decays);
        const auto got = product(a, fading), want = recurrence(a, fading);
        EXPECT_NEAR_TENSOR(got.out, want.out, tolerance(at::kDouble));
        EXPECT_NEAR_TENSOR(got.sums, want.sums, tolerance(at::kDouble));
      }
}

TEST(DecayedProduct, BeginsWithNothingWhereThereAreNoSums) {
  auto a = arguments(9, 5, 4, 4);
  a.sums = Tensor();
  EXPECT_NEAR_TENSOR(product(a, Fading::columns).out, recurrence(a, Fading::columns).out,
                     tolerance(at::kDouble));
}

// As one learned state for all of them has it, also in a type of its own.
TEST(DecayedProduct, FirstSumsMayBeSharedByHeadsAndSequences) {
  for (const auto fading : {Fading::rows, Fading::columns})
    for (const auto& sizes : {std::vector<int64_t>{1, 1, 4, 4}, {2, 1, 4, 4}, {3, 4, 4}, {4, 4}}) {
      const auto state = random_normal(sizes, 6);
      const auto slopes = [&](bool shared) {
        auto a = arguments(70, 4, 4, 4);
        const auto leaf = state.clone().requires_grad_();
        a.sums = shared ? leaf : leaf.expand({2, 3, 4, 4}).contiguous();
        const auto found = product(a, fading);
        (found.out.square().sum() + found.sums.square().sum()).backward();
        return std::vector<Tensor>{found.out.detach(), found.sums.detach(), leaf.grad()};
      };
      const auto got = slopes(true), want = slopes(false);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
    }
  auto a = arguments(70, 4, 4, 4);
  for (auto* t : {&a.x, &a.y, &a.z, &a.g}) *t = t->to(at::kFloat);
  a.sums = a.sums.to(at::kBFloat16);
  auto wide = a;
  wide.sums = a.sums.to(at::kFloat);
  EXPECT_TRUE(product(a, Fading::rows).out.equal(product(wide, Fading::rows).out));
}

// Far beyond what exp(-G) could take, and in float32: what follows a decay of nothing is as exact
// as without it.
TEST(DecayedProduct, ForgetsEverythingExactly) {
  for (const auto fading : {Fading::rows, Fading::columns}) {
    auto a = arguments(150, 4, 4, 4);
    a.g = a.g * 1e-2;
    a.g.select(2, 37).fill_(-1e30);
    a.g.select(2, 100).fill_(-700);
    const auto want = recurrence(a, fading).out;
    for (auto* t : {&a.x, &a.y, &a.z, &a.g, &a.sums}) *t = t->to(at::kFloat);
    EXPECT_NEAR_TENSOR(product(a, fading).out, want, (Tolerance{.absolute = 2e-5}));
    auto others = a;
    others.y = a.y.clone();
    others.y.narrow(2, 0, 37).add_(1);
    EXPECT_TRUE(product(others, fading)
                    .out.narrow(2, 37, 113)
                    .equal(product(a, fading).out.narrow(2, 37, 113)));
  }
}

TEST(DecayedProduct, LaterTokensHaveNoInfluence) {
  auto a = arguments(150, 4, 4, 4);
  const auto before = product(a, Fading::rows).out.narrow(2, 0, 70);
  for (auto* t : {&a.x, &a.y, &a.z, &a.g}) {
    *t = t->clone();
    t->narrow(2, 70, 80).mul_(3);
  }
  EXPECT_TRUE(product(a, Fading::rows).out.narrow(2, 0, 70).equal(before));
}

TEST(DecayedProduct, GradientsAreThoseOfTheRecurrence) {
  for (const auto fading : {Fading::rows, Fading::columns}) {
    const auto probe = random_normal({2, 3, 70, 4}, 6), last = random_normal({2, 3, 4, 4}, 7);
    const auto slopes = [&](Result (*compute)(const Arguments&, Fading)) {
      auto a = arguments(70, 4, 4, 4);
      a.g.select(2, 20).fill_(-1e30);
      std::vector<Tensor> leaves = {a.x, a.y, a.z, a.g, a.sums};
      for (auto& leaf : leaves) leaf.requires_grad_();
      const auto result = compute(a, fading);
      ((result.out * probe).sum() + (result.sums * last).sum()).backward();
      std::vector<Tensor> found;
      for (const auto& leaf : leaves) found.push_back(leaf.grad());
      return found;
    };
    const auto got = slopes(product), want = slopes(recurrence);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  }
}

struct FadedShape {
  int64_t batch, heads, tokens, rows, columns, decays;
};
void expect_the_recurrence(const FadedShape& s, Fading fading) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const bool reversed : {false, true}) {
      const DecayedInputs in(s.batch, s.heads, s.tokens, s.rows, s.columns, s.decays);
      in.g.select(2, s.tokens / 2).fill_(-1e30);
      const DecayedProduct how = {.fading = fading, .scale = 0.7, .reversed = reversed};
      ASSERT_TRUE(has_decay_kernel(in.x, in.y, in.z, in.g, how.fading));
      const auto got =
          decayed_results(in, at::dtype(type),
                          [&](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g,
                              Tensor& sums) { return decayed_product(x, y, z, g, how, sums); });
      const auto want =
          decayed_results(in, at::dtype(at::kDouble),
                          [&](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& g,
                              Tensor& sums) { return decayed_recurrence(x, y, z, g, how, sums); });
      for (size_t i = 0; i < got.size(); ++i) {
        const double most = want[i].abs().max().item<double>();
        EXPECT_NEAR_TENSOR(got[i] / most, want[i] / most, tolerance(type))
            << "result " << i << " of " << s.tokens << " tokens, reversed " << reversed;
      }
    }
}

TEST(DecayedProduct, BlocksOfColumnsAreTheRecurrence) {
  for (const FadedShape& s : {FadedShape{1, 1, 130, 19, 35, 7}, FadedShape{2, 3, 65, 5, 20, 1},
                              FadedShape{1, 1, 3, 33, 16, 2}, FadedShape{1, 2, 200, 128, 64, 2}})
    expect_the_recurrence(s, Fading::columns);
}

TEST(DecayedProduct, RowsThatFadeByThemselvesAreTheRecurrence) {
  for (const FadedShape& s : {FadedShape{1, 1, 130, 19, 35, 19}, FadedShape{2, 3, 65, 5, 20, 5},
                              FadedShape{1, 1, 3, 33, 16, 33}, FadedShape{1, 2, 200, 64, 64, 64}})
    expect_the_recurrence(s, Fading::rows);
}

TEST(DecayedProduct, TheChunkDoesNotMatter) {
  for (const auto fading : {Fading::rows, Fading::columns}) {
    const auto a = arguments(150, 4, 4, 4);
    const auto want = product(a, fading);
    for (const int64_t chunk : {1, 16, 256}) {
      auto sums = a.sums;
      EXPECT_NEAR_TENSOR(
          decayed_product_formula(a.x, a.y, a.z, a.g, {.fading = fading}, sums, chunk), want.out,
          tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(sums, want.sums, tolerance(at::kDouble));
    }
  }
}

TEST(DecayedProduct, ASequenceMayBeCutAnywhere) {
  const auto a = arguments(150, 5, 4, 5);
  const auto want = product(a, Fading::rows);
  for (const int64_t cut : {1, 63, 64, 149}) {
    auto sums = a.sums;
    const auto part = [&](int64_t start, int64_t count) {
      const auto of = [&](const Tensor& t) { return t.narrow(2, start, count); };
      return decayed_product(of(a.x), of(a.y), of(a.z), of(a.g), {}, sums);
    };
    const auto first = part(0, cut), second = part(cut, 150 - cut);
    EXPECT_NEAR_TENSOR(at::cat({first, second}, 2), want.out, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums, want.sums, tolerance(at::kDouble));
  }
}

// In float32, with memory that lasts for thousands of tokens.
TEST(DecayedProduct, ALongSequenceStaysExact) {
  auto a = arguments(2000, 4, 4, 4);
  a.g = a.g * 1e-4;
  const auto want = recurrence(a, Fading::rows);
  for (auto* t : {&a.x, &a.y, &a.z, &a.g, &a.sums}) *t = t->to(at::kFloat);
  const auto got = product(a, Fading::rows);
  const auto scale = want.out.abs().max().item<double>();
  EXPECT_NEAR_TENSOR(got.out, want.out, (Tolerance{.absolute = 1e-5 * scale}));
}

TEST(DecayedProduct, AnEmptySequenceLeavesTheSums) {
  const auto a = arguments(0, 5, 4, 4);
  const auto got = product(a, Fading::columns);
  EXPECT_EQ(got.out.sizes(), a.z.sizes());
  EXPECT_TRUE(got.sums.equal(a.sums));
}

TEST(DecayedProduct, ReversedTheLastTokenIsTheFirst) {
  for (const auto fading : {Fading::rows, Fading::columns}) {
    const auto a = arguments(150, 4, 4, 4);
    auto flipped = a;
    for (auto* t : {&flipped.x, &flipped.y, &flipped.z, &flipped.g}) *t = t->flip(2);
    const auto want = recurrence(flipped, fading);
    auto sums = a.sums;
    const auto out = decayed_product(a.x, a.y, a.z, a.g,
                                     {.fading = fading, .scale = 0.3, .reversed = true}, sums);
    EXPECT_NEAR_TENSOR(out, want.out.flip(2) * 0.3, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums, want.sums, tolerance(at::kDouble));
  }
}

TEST(DecayedProduct, BothWaysAtOnceAreTwoCalls) {
  for (const auto& [fading, decays] :
       {std::pair{Fading::rows, 5}, {Fading::rows, 1}, {Fading::columns, 2}}) {
    const auto found = both_ways({2, 3, 150, 5, 4, decays}, at::kDouble, {fading, 0.5});
    for (size_t i = 0; i < found[0].size(); ++i)
      EXPECT_NEAR_TENSOR(found[0][i], found[1][i], tolerance(at::kDouble)) << i;
  }
  const auto a = arguments(7, 5, 4, 5);
  EXPECT_EQ(error_of([&] { (void)decayed_products(a.x, a.y, a.z, a.g, {.reversed = true}); }),
            "decayed_products: goes both ways, and so is not reversed");
}

TEST(DecayedProduct, HalfTypesAreAddedUpInFloat32) {
  for (const auto fading : {Fading::rows, Fading::columns}) {
    auto a = arguments(150, 4, 4, fading == Fading::rows ? 4 : 2);
    for (auto* t : {&a.x, &a.y, &a.z}) *t = t->to(at::kBFloat16);
    for (auto* t : {&a.g, &a.sums}) *t = t->to(at::kFloat);
    ASSERT_TRUE(has_decay_kernel(a.x, a.y, a.z, a.g, fading));
    const auto got = product(a, fading);
    for (auto* t : {&a.x, &a.y, &a.z}) *t = t->to(at::kFloat);
    const auto want = product(a, fading);
    EXPECT_EQ(got.out.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(got.out.equal(want.out.to(at::kBFloat16)));
    EXPECT_TRUE(got.sums.equal(want.sums));
  }
}

TEST(DecayedProduct, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("decayed_product"), "");
  EXPECT_EQ(missing_kernels("decayed_product_backward_add", /*differentiable=*/false), "");
}

TEST(DecayedProduct, RefusesOtherShapes) {
  auto a = arguments(7, 5, 4, 3);
  EXPECT_EQ(error_of([&] { (void)product(a, Fading::rows); }),
            "decayed_product: 5 sums fade, but log_decay is [2, 3, 7, 3]");
  auto other = arguments(7, 5, 4, 4);
  other.sums = at::zeros({2, 3, 4, 5});
  EXPECT_EQ(error_of([&] { (void)product(other, Fading::columns); }),
            "decayed_product: sums are [2, 3, 4, 5], but x is [2, 3, 7, 5] and z [2, 3, 7, 4]");
  a.g = a.g.narrow(2, 0, 6);
  EXPECT_EQ(error_of([&] { (void)product(a, Fading::rows); }),
            "decayed_product: x is [2, 3, 7, 5] but z is [2, 3, 7, 4] and log_decay [2, 3, 6, 3]");
  a.y = a.y.narrow(3, 0, 4);
  EXPECT_EQ(error_of([&] { (void)product(a, Fading::rows); }),
            "decayed_product: x is [2, 3, 7, 5] but y is [2, 3, 7, 4]");
  a.y = a.x;
  EXPECT_EQ(error_of([&] { (void)decayed_product_formula(a.x, a.y, a.z, a.g, {}, a.sums, 48); }),
            "decayed_product: a chunk of 48 tokens, but needs a power of two");
}

}  // namespace
}  // namespace longbow
