#include "longbow/tensors/meter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/causal_product.h"

namespace longbow {
namespace {

using at::Tensor;

double operations_of(const std::function<void()>& body) {
  return measure(body).operations;
}

TEST(Meter, CountsEveryByteThatIsAllocated) {
  const auto usage = measure([] {
    for (int i = 0; i < 3; ++i) (void)at::empty({1000}, at::kFloat);
  });
  EXPECT_EQ(usage.allocated_bytes, 3 * 4000);
  EXPECT_EQ(usage.peak_bytes, 4000);
}

TEST(Meter, ThePeakIsAboveWhatLivedBefore) {
  auto before = at::empty({500}, at::kDouble);
  Tensor kept;
  const auto usage = measure([&] {
    kept = at::empty({1000}, at::kDouble);
    (void)at::empty({2000}, at::kDouble);
  });
  EXPECT_EQ(usage.peak_bytes, 8 * 3000);
}

TEST(Meter, FreesBlocksFromBeforeAndAfterAMeasurement) {
  auto before = at::ones({100});
  Tensor inside;
  EXPECT_EQ(measure([&] {
              inside = at::empty({10}, at::kFloat);
              before = Tensor();
            }).peak_bytes,
            40);
  inside = Tensor();
  EXPECT_EQ(measure([] {}).peak_bytes, 0);
}

TEST(Meter, AMatrixProductCostsTwoOperationsAnElementOfTheSum) {
  const auto a = at::ones({3, 5}), b = at::ones({5, 7});
  EXPECT_EQ(operations_of([&] { (void)a.mm(b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(operations_of([&] {
              (void)a.expand({4, 3, 5}).matmul(b.expand({4, 5, 7}));
            }),
            4 * 2 * 3 * 5 * 7);
}

TEST(Meter, AnOperatorThatComputesIsALaunch) {
  const auto x = at::ones({4, 3, 5}), w = at::ones({7, 5}), bias = at::ones({7});
  const auto launches = [](const std::function<void()>& body) { return measure(body).launches; };
  EXPECT_EQ(launches([&] { (void)at::empty({3}); }), 0);
  EXPECT_EQ(launches([&] { (void)x.transpose(0, 1).narrow(0, 1, 2).unsqueeze(0); }), 0);
  EXPECT_EQ(launches([&] { (void)(x + 1); }), 1);
  EXPECT_EQ(launches([&] { (void)at::linear(x.flatten(0, 1), w, bias); }), 1);
  EXPECT_EQ(launches([&] {
              for (const auto& chunk : x.split(1, 0)) (void)(chunk * 2).sum();
            }),
            8);
}

TEST(Meter, AComposedOperatorCountsOnce) {
  const auto x = at::ones({4, 3, 5}), w = at::ones({7, 5}), bias = at::ones({7});
  EXPECT_EQ(operations_of([&] { (void)at::linear(x, w, bias); }), 4 * 2 * 3 * 5 * 7);
}

TEST(Meter, ViewsAndEmptyMemoryAreFreeAndCopiesAreNot) {
  const auto x = at::ones({6, 8});
  EXPECT_EQ(operations_of([&] {
              (void)x.transpose(0, 1).unsqueeze(0).expand({3, 8, 6}).narrow(1, 0, 4);
            }),
            0);
  EXPECT_EQ(operations_of([&] { (void)x.t().contiguous(); }), 48);
}

TEST(Meter, AnOperatorMovesWhatItReadsAndWrites) {
  const auto x = at::zeros({3, 4}), y = at::zeros({4, 5}), row = at::zeros({1, 4});
  EXPECT_EQ(measure([&] { x.mm(y); }).moved_bytes, 4 * (12 + 20 + 15));
  EXPECT_EQ(measure([&] { x.t().unsqueeze(0); }).moved_bytes, 0) << "a view";
  EXPECT_EQ(measure([&] { x + row.expand({3, 4}); }).moved_bytes, 4 * (12 + 4 + 12)) << "one row";
  EXPECT_EQ(measure([&] { at::linear(x, y.t()); }).moved_bytes, 4 * (12 + 20 + 15)) << "once";
}

TEST(Meter, AReductionCostsItsInput) {
  const auto x = at::ones({6, 8});
  EXPECT_EQ(operations_of([&] { (void)x.sum(1); }), 48);
  EXPECT_EQ(operations_of([&] { (void)x.add(1); }), 48);
}

TEST(Meter, FusedAttentionCostsItsTwoProductsAndFiveBackward) {
  const auto q = at::ones({1, 2, 16, 4}).requires_grad_(),
             k = at::ones({1, 2, 32, 4}).requires_grad_();
  const double pairs = 2 * 16 * 32;
  Tensor y;
  EXPECT_EQ(operations_of([&] { y = at::scaled_dot_product_attention(q, k, k); }), 4 * pairs * 4);
  EXPECT_GE(operations_of([&] { y.sum().backward(); }), 10 * pairs * 4);
}

TEST(Meter, ACausalProductIsLinear) {
  const auto cost = [](int64_t n) {
    const auto x = at::ones({1, n, 4});
    return operations_of([&] { (void)causal_product(x, x, x); });
  };
  EXPECT_EQ(cost(64), 4 * 64 * 4 * 4);
  EXPECT_EQ(cost(128), 2 * cost(64));
}

TEST(Meter, AFourierTransformCostsFiveNLogN) {
  const auto x = at::ones({3, 64}, at::kComplexFloat);
  EXPECT_EQ(operations_of([&] { (void)at::fft_fft(x); }), 3 * 5 * 64 * 6);
}

TEST(Meter, AConvolutionCostsItsKernelAtEverySite) {
  const auto x = at::ones({2, 3, 20}), w = at::ones({5, 3, 4});
  EXPECT_EQ(operations_of([&] { (void)at::conv1d(x, w); }), 2.0 * (2 * 5 * 17) * (3 * 4));
}

TEST(Meter, StopsCountingWhenTheBodyThrows) {
  EXPECT_THROW((void)measure([] { throw std::runtime_error("stop"); }), std::runtime_error);
  EXPECT_EQ(operations_of([] { (void)at::ones({2}).add(1); }),
            operations_of([] { (void)at::ones({2}).add(1); }));
}

TEST(Meter, RefusesADeviceThatItCannotCount) {
  try {
    (void)measure([] {}, c10::Device("meta"));
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_STREQ(error.what_without_backtrace(), "measure: no counter for the memory of meta");
  }
}

}  // namespace
}  // namespace longbow
