#include "longbow/ops/rows_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(RowsProduct, IsTheProduct) {
  struct Sizes {
    int64_t rows, depth, columns;
  };
  for (const auto& s : {Sizes{64, 1, 16}, {65, 7, 32}, {199, 300, 48}, {500, 64, 80}}) {
    const auto x = random_normal({s.rows, s.depth + 3}, 1).to(at::kFloat).narrow(1, 2, s.depth),
               b = random_normal({s.depth, s.columns}, 2).to(at::kFloat),
               bias = random_normal({s.columns}, 3).to(at::kFloat);
    const auto want = x.to(at::kDouble).mm(b.to(at::kDouble));
    const auto near = Tolerance{1e-4, 1e-5};
    EXPECT_NEAR_TENSOR(rows_product(x, b, Factor::plain).to(at::kDouble), want, near);
    EXPECT_NEAR_TENSOR(rows_product(x, b.t(), Factor::transposed, bias).to(at::kDouble),
                       want + bias.to(at::kDouble), near);
    EXPECT_NEAR_TENSOR(rows_product(x, b.t().contiguous(), Factor::transposed).to(at::kDouble),
                       want, near);
  }
}

TEST(RowsProduct, FewRowsReadTheMatrixAsItLies) {
  struct Sizes {
    int64_t rows, depth, columns;
  };
  for (const auto& s :
       {Sizes{1, 1, 4096}, {1, 512, 70}, {3, 37, 205}, {7, 64, 65}, {16, 300, 48}}) {
    const auto x = random_normal({s.rows, s.depth + 3}, 1).to(at::kFloat).narrow(1, 2, s.depth),
               w = random_normal({s.columns, s.depth}, 2).to(at::kFloat),
               bias = random_normal({s.columns}, 3).to(at::kFloat);
    const auto want = x.to(at::kDouble).mm(w.to(at::kDouble).t());
    const auto near = Tolerance{1e-4, 1e-5};
    const auto got = rows_product(x, w, Factor::transposed);
    EXPECT_NEAR_TENSOR(got.to(at::kDouble), want, near);
    EXPECT_NEAR_TENSOR(rows_product(x, w, Factor::transposed, bias).to(at::kDouble),
                       want + bias.to(at::kDouble), near);
    EXPECT_TRUE(at::equal(rows_product(x.narrow(0, s.rows - 1, 1), w, Factor::transposed),
                          got.narrow(0, s.rows - 1, 1)))
        << "a row alone";
  }
  const auto x = at::zeros({17, 64}), w = at::zeros({64, 64}), few = x.narrow(0, 0, 16);
  EXPECT_TRUE(has_rows_kernel(few, w, Factor::transposed));
  EXPECT_FALSE(has_rows_kernel(x, w, Factor::transposed));
  EXPECT_FALSE(has_rows_kernel(few, w.narrow(0, 0, 63), Factor::transposed));
  EXPECT_FALSE(has_rows_kernel(few, w.t(), Factor::transposed));
  EXPECT_FALSE(has_rows_kernel(few, w, Factor::plain));
}

// What a row gives does not depend on the rows beside it, nor on the threads.
TEST(RowsProduct, RowsAreIndependent) {
  const auto x = random_normal({150, 70}, 1).to(at::kFloat),
             b = random_normal({70, 48}, 2).to(at::kFloat);
  const auto whole = rows_product(x, b, Factor::plain);
  EXPECT_TRUE(
      at::equal(rows_product(x.narrow(0, 13, 100), b, Factor::plain), whole.narrow(0, 13, 100)));
  const int threads = at::get_num_threads();
  const auto on_threads = [&](int count) {
    at::set_num_threads(count);
    return rows_product(x, b, Factor::plain);
  };
  const auto alone = on_threads(1), together = on_threads(4);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

TEST(RowsProduct, LeavesOtherShapesToLibTorch) {
  const auto x = at::zeros({100, 8}), b = at::zeros({8, 32});
  EXPECT_TRUE(has_rows_kernel(x, b, Factor::plain));
  EXPECT_FALSE(has_rows_kernel(x.narrow(0, 0, 63), b, Factor::plain));
  EXPECT_FALSE(has_rows_kernel(x, b.narrow(1, 0, 31), Factor::plain));
  EXPECT_FALSE(has_rows_kernel(x.to(at::kDouble), b.to(at::kDouble), Factor::plain));
  EXPECT_FALSE(has_rows_kernel(x.t(), b, Factor::transposed));
  EXPECT_NE(error_of([&] {
              rows_product(x, at::zeros({9, 32}), Factor::plain);
            }).find("rows_product: x is [100, 8] and b [9, 32]"),
            std::string::npos);
}

TEST(RowsProduct, NamesABiasThatDoesNotFit) {
  const auto x = at::zeros({100, 8}), b = at::zeros({8, 32});
  EXPECT_EQ(error_of([&] { rows_product(x, b, Factor::plain, at::zeros({31})); }),
            "rows_product: bias is Float [31] for 32 columns");
  EXPECT_EQ(error_of([&] {
              rows_product(x, b, Factor::plain, at::zeros({1, 32}));
            }),
            "rows_product: bias is Float [1, 32] for 32 columns");
  EXPECT_EQ(error_of([&] { rows_product(x, b, Factor::plain, at::zeros({32}, at::kDouble)); }),
            "rows_product: bias is Double [32] for 32 columns");
}

TEST(ColumnsProduct, IsTheTransposedProductWithTheSums) {
  for (const auto& [rows, count, columns] : {std::tuple{64, 1, 16}, {300, 50, 48}, {700, 24, 80}}) {
    const auto a = random_normal({rows, count + 5}, 1).to(at::kFloat).narrow(1, 3, count),
               b = random_normal({rows, columns}, 2).to(at::kFloat);
    const auto [out, sums] = columns_product(a, b);
    const auto wide = a.to(at::kDouble);
    EXPECT_NEAR_TENSOR(out.to(at::kDouble), wide.t().mm(b.to(at::kDouble)),
                       (Tolerance{1e-4, 1e-5}));
    EXPECT_NEAR_TENSOR(sums.to(at::kDouble), wide.sum(0), (Tolerance{1e-4, 1e-5}));
  }
  EXPECT_FALSE(has_columns_kernel(at::zeros({100, 8}), at::zeros({100, 8})));
  EXPECT_FALSE(has_columns_kernel(at::zeros({100, 8}), at::zeros({99, 16})));
}

}  // namespace
}  // namespace longbow
