#include "longbow/tensors/meter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/block_softmax.h"
#include "longbow/ops/causal_product.h"
#include "longbow/ops/channel_taps.h"
#include "longbow/ops/decayed_product.h"
#include "longbow/ops/feature_product.h"
#include "longbow/ops/head_filter.h"
#include "longbow/ops/iterated_inverse.h"
#include "longbow/ops/random_product.h"
#include "longbow/ops/rows_product.h"
#include "longbow/ops/slot_softmax.h"
#include "longbow/ops/tile_attention.h"

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

TEST(Meter, AProductInPlaceCostsAsMuch) {
  const auto a = at::ones({3, 5}), b = at::ones({5, 7}), y = at::ones({3, 7});
  EXPECT_EQ(operations_of([&] { y.addmm_(a, b); }), 2 * 3 * 5 * 7);
  const auto p = at::ones({4, 6, 9}), v = at::ones({4, 9, 2}), o = at::ones({4, 6, 2});
  EXPECT_EQ(operations_of([&] { o.baddbmm_(p, v); }), 2 * 4 * 6 * 9 * 2);
  const auto row = at::ones({3}), vector = at::ones({5});
  EXPECT_EQ(operations_of([&] { row.addmv_(a, vector); }), 2 * 3 * 5);
  EXPECT_EQ(operations_of([&] { y.add_(1); }), 3 * 7) << "no product";
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

// Forward, and in a backward pass after it.
struct Passes {
  double forward, backward;
};
Passes passes_of(const std::function<Tensor()>& forward) {
  Tensor out;
  const double first = operations_of([&] { out = forward(); });
  const auto gradient = at::ones_like(out);
  return {first, operations_of([&] { out.backward(gradient); })};
}
// Of all operators of a pass, some of which copy or clear a tensor.
void expect_mostly(double operations, double kernel) {
  EXPECT_NEAR(operations, kernel, 0.01 * kernel);
}

TEST(Meter, TilesCostTheKeysThatAreListed) {
  const auto q = at::ones({2, 3, 40, 8}).requires_grad_(), k = at::ones({2, 3, 64, 8});
  const auto v = at::ones({2, 3, 64, 16});
  const double a_key = 2.0 * (2 * 3 * 40) * (8 + 16);
  const auto two_of_four = at::tensor({0, 3, 1, 2, 0, 1}, at::kLong).view({1, 1, 3, 2});
  const auto blocks = passes_of([&] { return block_softmax(q, k, v, {16, 16, two_of_four}).out; });
  EXPECT_EQ(blocks.forward, a_key * 2 * 16);
  expect_mostly(blocks.backward, 2.5 * a_key * 2 * 16);
  const BlockRule all = {.pairs = one_block(40, 64)};
  const auto tiles = passes_of([&] { return attend_tiles(q, k, v, all, TileWeights::relu); });
  EXPECT_EQ(tiles.forward, a_key * 64);
  expect_mostly(tiles.backward, 2.5 * a_key * 64);
}

TEST(Meter, SlotsCostAllPairs) {
  const auto q = at::ones({2, 3, 40, 8}).requires_grad_(), k = at::ones({2, 3, 5, 8});
  const auto cost = passes_of([&] { return slot_softmax(q, k, k); });
  EXPECT_EQ(cost.forward, 4.0 * (2 * 3 * 40 * 8) * 5);
  EXPECT_EQ(cost.backward, 10.0 * (2 * 3 * 40 * 8) * 5);
}

TEST(Meter, FeaturesCostTheirTokens) {
  const auto q = at::ones({2, 3, 40, 8}).requires_grad_(), k = at::ones({2, 3, 64, 8});
  const auto v = at::ones({2, 3, 64, 16}), omega = at::ones({3, 32, 8});
  const double tokens = 2 * 3 * (40 + 64);
  const auto maps = passes_of([&] { return feature_product(q, k, v, {}); });
  EXPECT_EQ(maps.forward, 2 * tokens * 8 * 16);
  expect_mostly(maps.backward, 2 * maps.forward);
  const auto random = passes_of([&] { return random_product(q, k, v, {.omega = omega}); });
  EXPECT_EQ(random.forward, 2 * tokens * 32 * (8 + 16));
  expect_mostly(random.backward, 2 * random.forward);
}

TEST(Meter, SumsThatFadeAreLinear) {
  const auto cost = [](int64_t n) {
    const auto x = at::ones({2, 3, n, 8}).requires_grad_(), z = at::ones({2, 3, n, 16});
    return passes_of([&] {
      Tensor sums;
      return decayed_product(x, x.detach(), z, at::zeros({2, 3, n, 2}), {.fading = Fading::columns},
                             sums);
    });
  };
  const auto once = cost(64), twice = cost(128);
  EXPECT_NEAR(once.forward, 2.0 * (2 * 3 * 64) * (64 * (8 + 16) + 2 * 8 * 16), 5000);
  EXPECT_NEAR(twice.forward, 2 * once.forward, 5000);
  EXPECT_NEAR(once.backward, 2 * once.forward, 0.05 * once.backward);
}

TEST(Meter, AnIteratedInverseCostsItsProducts) {
  const auto a = at::eye(20).repeat({3, 1, 1}).requires_grad_();
  const auto cost = passes_of([&] { return iterated_inverse(a, a.detach(), 5); });
  EXPECT_EQ(cost.forward, 4 * 5 * 2.0 * 3 * 20 * 20 * 20);
  expect_mostly(cost.backward, 11 * 5 * 2.0 * 3 * 20 * 20 * 20);
}

TEST(Meter, ProductsOfRowsCostAsOthers) {
  const auto x = at::ones({70, 16}), weight = at::ones({32, 16}), bias = at::ones({32});
  EXPECT_EQ(operations_of([&] { (void)rows_product(x, weight, Factor::transposed, bias); }),
            2.0 * 70 * 16 * 32);
  EXPECT_EQ(operations_of([&] {
              (void)columns_product(at::ones({70, 32}), x);
            }) - operations_of([&] {
              (void)at::ones({70, 32});
            }),
            2.0 * 70 * 16 * 32);
}

TEST(Meter, AFourierTransformCostsFiveNLogN) {
  const auto x = at::ones({3, 64}, at::kComplexFloat);
  EXPECT_EQ(operations_of([&] { (void)at::fft_fft(x); }), 3 * 5 * 64 * 6);
}

TEST(Meter, AConvolutionCostsItsKernelAtEverySite) {
  const auto x = at::ones({2, 3, 20}), w = at::ones({5, 3, 4});
  EXPECT_EQ(operations_of([&] { (void)at::conv1d(x, w); }), 2.0 * (2 * 5 * 17) * (3 * 4));
}

TEST(Meter, ChannelTapsCostEachTap) {
  const auto z = at::ones({2, 60, 8}).requires_grad_(), taps = at::ones({8, 25});
  const auto cost = passes_of([&] { return channel_taps(z, taps, {}, 24); });
  EXPECT_EQ(cost.forward, 2.0 * (2 * 60 * 8) * 25);
  EXPECT_NEAR(cost.backward, 2 * cost.forward, 0.05 * cost.backward);
  const auto pixels = z.detach(), square = at::ones({8, 3, 3});
  EXPECT_EQ(operations_of([&] { (void)channel_taps(pixels, square, {}, 1, TapsOutput::sum, 12); }),
            2.0 * (2 * 60 * 8) * 9);
}

TEST(Meter, AFilterOfHeadsCostsEachTap) {
  const auto x = at::ones({2, 3, 60, 8}).requires_grad_(), filter = at::ones({3, 33});
  const auto cost = passes_of([&] { return head_filter(x, filter); });
  EXPECT_EQ(cost.forward, 2.0 * (2 * 3 * 60 * 8) * 33);
  EXPECT_NEAR(cost.backward, 2 * cost.forward, 0.05 * cost.backward);
}

// An operator that throws has no results.
TEST(Meter, AnOperatorThatThrowsReachesTheCaller) {
  const auto a = at::ones({3, 5}), b = at::ones({5, 7});
  const auto signal = at::ones({1, 3, 8}), taps = at::ones({2, 4, 3});
  EXPECT_THROW((void)measure([&] { (void)a.mm(a); }), c10::Error);
  EXPECT_THROW((void)measure([&] { (void)a.unsqueeze(0).bmm(a.unsqueeze(0)); }), c10::Error);
  EXPECT_THROW((void)measure([&] { (void)a.mv(at::ones({3})); }), c10::Error);
  EXPECT_THROW((void)measure([&] { (void)at::conv1d(signal, taps); }), c10::Error);
  EXPECT_EQ(operations_of([&] {
              EXPECT_THROW((void)a.mm(a), c10::Error);
              (void)a.mm(b);
            }),
            2 * 3 * 5 * 7);
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
