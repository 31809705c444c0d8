#include "longbow/ops/philox.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "longbow/kernels/philox_rounds.h"
#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

at::Tensor key(int64_t seed, int64_t step) {
  return at::tensor({seed, step}, at::kLong);
}

TEST(Philox, EachElementIsAWordOfItsBlock) {
  const auto drawn = philox_uniform(key(42, 7), 5, {3, 7});
  for (int64_t i = 0; i < 21; ++i) {
    const auto word = kernels::philox_site(42, 7, 5, i / 4).word[i % 4];
    EXPECT_EQ(drawn.flatten()[i].item<float>(), kernels::philox_unit(word)) << i;
  }
}

TEST(Philox, IsUniformBetweenZeroAndOne) {
  const auto drawn = philox_uniform(key(1, 0), 3, {1 << 18});
  EXPECT_GE(drawn.min().item<float>(), 0);
  EXPECT_LT(drawn.max().item<float>(), 1);
  EXPECT_NEAR(drawn.mean().item<double>(), 0.5, 0.005);
  EXPECT_NEAR(drawn.var().item<double>(), 1.0 / 12, 0.002);
}

TEST(Philox, SeedStepAndSiteEachChangeTheNumbers) {
  const auto drawn = philox_uniform(key(1, 2), 3, {64});
  EXPECT_TRUE(drawn.equal(philox_uniform(key(1, 2), 3, {64})));
  EXPECT_FALSE(drawn.equal(philox_uniform(key(2, 2), 3, {64})));
  EXPECT_FALSE(drawn.equal(philox_uniform(key(1, 3), 3, {64})));
  EXPECT_FALSE(drawn.equal(philox_uniform(key(1, 2), 4, {64})));
}

TEST(Philox, TheNumberOfThreadsChangesNothing) {
  const int threads = at::get_num_threads();
  const auto draw = [](int count) {
    at::set_num_threads(count);
    return philox_uniform(key(9, 9), 9, {100003});
  };
  const auto alone = draw(1), together = draw(4);
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.equal(together));
}

TEST(Philox, ALongerDrawBeginsWithTheShorterOne) {
  EXPECT_TRUE(philox_uniform(key(1, 1), 1, {70000})
                  .narrow(0, 0, 33)
                  .equal(philox_uniform(key(1, 1), 1, {33})));
}

TEST(Philox, AWindowIsAPartOfTheWhole) {
  const auto whole = philox_uniform(key(3, 1), 8, {5, 13, 11});
  for (const auto& [row, rows, column, columns] :
       {std::array<int64_t, 4>{0, 13, 0, 11}, {2, 4, 3, 5}, {12, 1, 10, 1}, {5, 0, 1, 2}}) {
    auto part = at::full({5, rows, columns}, -1, at::kFloat);
    philox_window(key(3, 1), 8, 13, 11, row, column, part);
    EXPECT_TRUE(part.equal(whole.narrow(1, row, rows).narrow(2, column, columns)))
        << row << " " << column;
  }
}

TEST(Philox, RefusesAWindowThatDoesNotFit) {
  const auto refused = [](at::Tensor out) {
    return error_of([&] { philox_window(key(1, 1), 0, 6, 4, 3, 2, out); });
  };
  EXPECT_EQ(refused(at::zeros({2, 4, 2})),
            "philox_window: [2, 4, 2] from row 3 and column 2 leaves the 6 rows and 4 columns");
  EXPECT_EQ(refused(at::zeros({3, 2})),
            "philox_window: out is [3, 2] Float, but needs [G, R, C] float32 beside the key");
}

TEST(Philox, RefusesAKeyOfAnotherForm) {
  EXPECT_EQ(error_of([] { (void)philox_uniform(at::zeros({2}), 0, {1}); }),
            "philox_uniform: key is [2] Float, but needs [2] int64");
  EXPECT_EQ(error_of([] { (void)philox_uniform(at::zeros({3}, at::kLong), 0, {1}); }),
            "philox_uniform: key is [3] Long, but needs [2] int64");
}

TEST(Philox, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("philox_uniform", false), "");
  EXPECT_EQ(missing_kernels("philox_window", false), "");
  const auto key = at::empty({2}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  EXPECT_EQ(philox_uniform(key, 3, {4, 5}).sizes(), at::IntArrayRef({4, 5}));
}

}  // namespace
}  // namespace longbow
