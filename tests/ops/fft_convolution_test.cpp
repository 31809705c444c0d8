#include "longbow/ops/fft_convolution.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// The Toeplitz product, entry by entry: u [B, N, C], kernels [L, C or 1].
Tensor toeplitz(const Tensor& u, const Tensor& past, const Tensor& ahead, FirstLag first) {
  const int64_t n = u.size(-2), from = first == FirstLag::one ? 1 : 0;
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < n; ++t) {
    auto row = at::zeros_like(u.select(-2, 0));
    for (int64_t j = 0; j < n; ++j) {
      if (past.defined() && j <= t && t - j < past.size(-2))
        row = row + past.select(-2, t - j) * u.select(-2, j);
      if (ahead.defined() && j >= t + from && j - t - from < ahead.size(-2))
        row = row + ahead.select(-2, j - t - from) * u.select(-2, j);
    }
    rows.push_back(row);
  }
  return at::stack(rows, -2);
}

TEST(FftConvolution, IsTheToeplitzProduct) {
  for (const int64_t n : {1, 2, 3, 7, 16, 31, 40})
    for (const int64_t channels : {1, 5})
      for (const int64_t length : {n, n + 4, (n + 1) / 2}) {
        const auto u = random_normal({2, n, 5}, 1), past = random_normal({length, channels}, 2),
                   ahead = random_normal({length, channels}, 3);
        const auto expect = [&](const Tensor& p, const Tensor& a, FirstLag first) {
          EXPECT_NEAR_TENSOR(fft_convolution(u, p, a, first), toeplitz(u, p, a, first),
                             (Tolerance{1e-12, 1e-12}))
              << n << " tokens, " << length << " lags";
        };
        expect(past, {}, FirstLag::one);
        expect(past, ahead, FirstLag::one);
        expect(past, ahead, FirstLag::zero);
        expect({}, ahead, FirstLag::zero);
      }
}

TEST(FftConvolution, AnImpulseReturnsTheKernels) {
  auto u = at::zeros({1, 9, 2}, at::kDouble);
  u.select(1, 4).fill_(1);
  const auto past = random_normal({9, 2}, 1), ahead = random_normal({9, 2}, 2);
  const auto y = fft_convolution(u, past, ahead)[0];
  EXPECT_NEAR_TENSOR(y.narrow(0, 4, 5), past.narrow(0, 0, 5), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(y.narrow(0, 0, 4).flip(0), ahead.narrow(0, 0, 4), tolerance(at::kDouble));
}

TEST(FftConvolution, ReversedTokensAndSwappedKernelsReverseTheResult) {
  const auto u = random_normal({2, 13, 3}, 1), past = random_normal({13, 3}, 2),
             ahead = random_normal({13, 3}, 3);
  EXPECT_NEAR_TENSOR(fft_convolution(u.flip(1), ahead, past, FirstLag::zero),
                     fft_convolution(u, past, ahead, FirstLag::zero).flip(1),
                     tolerance(at::kDouble));
}

TEST(FftConvolution, KernelsMayHaveABatchOfTheirOwn) {
  const auto u = random_normal({2, 3, 11, 4}, 1), past = random_normal({3, 11, 1}, 2);
  const auto y = fft_convolution(u, past);
  for (int64_t group = 0; group < 3; ++group)
    EXPECT_NEAR_TENSOR(y.select(1, group),
                       toeplitz(u.select(1, group), past[group], {}, FirstLag::one),
                       tolerance(at::kDouble));
}

TEST(FftConvolution, GradientsAreThoseOfDifferences) {
  for (const int64_t channels : {1, 3}) {
    const auto u = random_normal({2, 7, 3}, 1).requires_grad_(),
               past = random_normal({7, channels}, 2).requires_grad_(),
               ahead = random_normal({5, channels}, 3).requires_grad_();
    for (const auto first : {FirstLag::one, FirstLag::zero})
      EXPECT_TRUE(gradcheck([&] { return fft_convolution(u, past, ahead, first); },
                            {{"u", u}, {"past", past}, {"ahead", ahead}}));
  }
}

TEST(FftConvolution, HalfTypesAreTransformedInFloat32) {
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat}) {
    const auto u = random_normal({2, 300, 3}, 1).to(type),
               past = random_normal({300, 3}, 2).to(type);
    const auto y = fft_convolution(u, past);
    EXPECT_EQ(y.scalar_type(), at::kFloat);
    EXPECT_NEAR_TENSOR(y, fft_convolution(u.to(at::kDouble), past.to(at::kDouble)),
                       (Tolerance{5e-5}));
  }
}

TEST(FftConvolution, SizesAreProductsOfSmallPrimes) {
  EXPECT_EQ(fft_size(1), 1);
  EXPECT_EQ(fft_size(5), 5);
  EXPECT_EQ(fft_size(9), 10);
  EXPECT_EQ(fft_size(11), 12);
  EXPECT_EQ(fft_size(13), 16);
  EXPECT_EQ(fft_size(2001), 2048);
}

TEST(FftConvolution, EmptySequencesAndBatchesStayEmpty) {
  for (const auto& sizes : {std::vector<int64_t>{2, 0, 3}, {0, 5, 3}})
    EXPECT_EQ(fft_convolution(at::zeros(sizes), at::zeros({4, 3})).sizes(), sizes);
}

TEST(FftConvolution, RefusesOtherShapes) {
  const auto u = at::zeros({2, 5, 3});
  EXPECT_EQ(error_of([&] {
              (void)fft_convolution(u, at::zeros({5, 2}));
            }),
            "fft_convolution: u is [2, 5, 3] but a kernel is [5, 2]");
  EXPECT_EQ(error_of([&] { (void)fft_convolution(u, {}); }), "fft_convolution: there is no kernel");
}

}  // namespace
}  // namespace longbow
