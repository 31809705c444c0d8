#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "longbow/ops/feature_product.h"
#include "tests/ops/feature_products.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");

void expect_near(const FeatureResults& got, const FeatureResults& want, bool one_key) {
  constexpr double kMost = 6;
  EXPECT_LT(roundings(got.out, want.out, one_key), kMost);
  EXPECT_LT(roundings(got.dq, want.dq, one_key), kMost);
  EXPECT_LT(roundings(got.dk, want.dk, one_key), kMost);
  EXPECT_LT(roundings(got.dv, want.dv, one_key), kMost);
}

// The definition in float64 of numbers that were rounded to bfloat16.
void expect_near_definition(FeatureInputs in, const FeatureProduct& how, const std::string& what) {
  SCOPED_TRACE(what);
  for (auto* t : {&in.q, &in.k, &in.v, &in.g}) *t = t->to(at::kBFloat16).to(at::kDouble);
  auto there = how;
  for (auto* t : {&there.keep, &there.query_turns, &there.key_turns})
    if (t->defined()) *t = t->cuda();
  ASSERT_TRUE(has_feature_kernel(in.q.to(kOnGpu), in.k.to(kOnGpu), in.v.to(kOnGpu), how));
  const bool one_key = in.k.size(2) == 1;
  const auto want = results_of(in, at::kDouble, [&](const auto& q, const auto& k, const auto& v) {
    return dense_feature_product(q, k, v, how);
  });
  const auto got = results_of(in, kOnGpu, [&](const auto& q, const auto& k, const auto& v) {
    return feature_product(q, k, v, there);
  });
  expect_near(got, want, one_key);
  in.g = random_normal({in.g.size(0), in.g.size(1), in.g.size(2), in.g.size(3) + 1}, 4)
             .to(at::kBFloat16)
             .to(at::kDouble);
  const auto sums = results_of(in, at::kDouble, [&](const auto& q, const auto& k, const auto& v) {
    return dense_sums(q, k, v, how);
  });
  const auto got_sums = results_of(in, kOnGpu, [&](const auto& q, const auto& k, const auto& v) {
    return beside(feature_product_sums(q, k, v, there));
  });
  expect_near(got_sums, sums, one_key);
}

TEST(FeatureProductCuda, IsItsDefinitionForAllLengths) {
  for (const int64_t n : {1, 7, 64, 65, 1000})
    for (const int64_t m : {1, 63, 64, 130, 1000})
      expect_near_definition(
          {2, 3, n, m, 64, 64},
          {.query_map = FeatureMap::elu, .key_map = FeatureMap::elu, .added = 1e-6},
          std::to_string(n) + " queries, " + std::to_string(m) + " keys");
}

TEST(FeatureProductCuda, IsItsDefinitionForAllWidthsAndMaps) {
  for (const auto& [e, d] : {std::pair{8, 8}, {24, 40}, {32, 32}, {64, 64}, {72, 128}, {128, 128}})
    for (const bool turned : {false, true})
      for (const auto map :
           {FeatureMap::relu, FeatureMap::elu, FeatureMap::square, FeatureMap::exp}) {
        FeatureProduct how = {.query_map = map, .key_map = map, .least = 1e-6};
        if (turned) how.query_turns = some_turns(70), how.key_turns = some_turns(90);
        expect_near_definition(
            {1, 2, 70, 90, e, d}, how,
            c10::str(e, " x ", d, turned ? " turned" : "", " map ", static_cast<int>(map)));
      }
  expect_near_definition({1, 2, 70, 90, 64, 64}, {.normalised = false}, "not normalised");
  expect_near_definition({1, 2, 70, 90, 64, 64},
                         {.query_map = FeatureMap::relu, .key_map = FeatureMap::relu, .least = 1e4},
                         "the denominator is its least");
}

TEST(FeatureProductCuda, IsItsDefinitionForHeadsOf32Channels) {
  for (const int64_t n : {1, 15, 64, 65, 1000})
    for (const int64_t m : {1, 63, 130, 1000})
      for (const bool turned : {false, true}) {
        FeatureProduct how = {
            .query_map = FeatureMap::elu, .key_map = FeatureMap::elu, .added = 1e-6};
        if (turned) how.query_turns = some_turns(n), how.key_turns = some_turns(m);
        if (m > 1) how.keep = random_normal({2, m}, 9) > -1;
        expect_near_definition({2, 2, n, m, 32, 32}, how,
                               c10::str(n, " queries, ", m, " keys", turned ? ", turned" : ""));
      }
  for (const auto& [e, d] : {std::pair{32, 8}, {8, 32}, {16, 24}})
    expect_near_definition({3, 2, 70, 90, e, d},
                           {.query_map = FeatureMap::square, .key_map = FeatureMap::relu},
                           c10::str(e, " x ", d));
  // So many sequences that a block walks over several tiles of one.
  expect_near_definition({150, 2, 130, 200, 32, 32},
                         {.query_map = FeatureMap::relu, .key_map = FeatureMap::elu, .least = 1e-6},
                         "many sequences");
}

TEST(FeatureProductCuda, IsItsDefinitionForManyFeatures) {
  for (const auto& [e, d] : {std::pair{128, 64}, {104, 40}, {256, 64}, {200, 24}})
    for (const bool causal : {false, true})
      if (e <= 128 || !causal)
        expect_near_definition(
            {1, 2, 130, 130, e, d},
            {.query_map = FeatureMap::elu,
             .key_map = FeatureMap::relu,
             .causal = causal,
             .least = 1e-6},
            c10::str(e, " features, ", d, " channels", causal ? ", causal" : ""));
}

TEST(FeatureProductCuda, IsItsDefinitionUnderACausalMask) {
  for (const int64_t n : {1, 7, 64, 65, 256, 257, 1000})
    for (const auto& [e, d] : {std::pair{64, 64}, {32, 32}, {16, 8}, {24, 40}, {128, 96}}) {
      FeatureProduct how = {
          .query_map = FeatureMap::elu, .key_map = FeatureMap::elu, .causal = true, .added = 1e-6};
      expect_near_definition({2, 2, n, n, e, d}, how, c10::str(n, " tokens, ", e, " x ", d));
      if (e > 64) continue;
      how.keep = random_normal({2, n}, 9) > -1;
      how.keep.select(1, 0).fill_(true);
      if (e == 64) expect_near_definition({2, 2, n, n, e, d}, how, c10::str(n, " tokens kept"));
      how.query_turns = how.key_turns = some_turns(n);
      expect_near_definition({2, 2, n, n, e, d}, how, c10::str(n, " tokens turned, ", e, " x ", d));
    }
}

TEST(FeatureProductCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const FeatureProduct how = {
      .query_map = FeatureMap::elu, .key_map = FeatureMap::elu, .causal = true, .added = 1e-6};
  const auto x = random_normal({1, 2, 600, 64}, 1).to(kOnGpu);
  for (const int64_t n : {1, 70, 300}) {
    auto later = x.clone();
    later.narrow(2, n, 600 - n).mul_(100);
    EXPECT_NEAR_TENSOR(feature_product(x, later, later, how).narrow(2, 0, n).cpu(),
                       feature_product(x, x, x, how).narrow(2, 0, n).cpu(), kExact);
  }
}

TEST(FeatureProductCuda, PaddedKeysAreNotThere) {
  auto keep = random_normal({3, 200}, 9) > 0;
  keep[1].fill_(false);  // a row of padding alone
  FeatureProduct how = {
      .query_map = FeatureMap::elu, .key_map = FeatureMap::elu, .keep = keep, .added = 1e-6};
  for (const int64_t width : {32, 64}) {
    how.keep = keep;
    expect_near_definition({3, 2, 100, 200, width, width}, how, "holes");
    FeatureInputs in(3, 2, 100, 200, width, width);
    how.keep = keep.cuda();
    const auto padded = keep.logical_not().unsqueeze(1).unsqueeze(-1);
    const auto product = [&](const auto& q, const auto& k, const auto& v) {
      return feature_product(q, k, v, how);
    };
    const auto first = results_of(in, kOnGpu, product);
    in.k = in.k.masked_fill(padded, 1e30);
    in.v = in.v.masked_fill(padded, -7);
    const auto second = results_of(in, kOnGpu, product);
    EXPECT_NEAR_TENSOR(second.out, first.out, kExact);
    EXPECT_NEAR_TENSOR(second.dq, first.dq, kExact);
    EXPECT_NEAR_TENSOR(first.dk * padded, at::zeros_like(first.dk), kExact);
    EXPECT_NEAR_TENSOR(first.dv * padded, at::zeros_like(first.dv), kExact);
  }
}

TEST(FeatureProductCuda, TakesHeadsBesideEachOtherAndOddAddresses) {
  const FeatureProduct how = {.query_map = FeatureMap::elu, .key_map = FeatureMap::elu};
  for (const int64_t width : {32, 64}) {
    const auto x = random_normal({2, 100, 3, width}, 1).to(kOnGpu);
    const auto heads = x.transpose(1, 2);
    const auto want =
        feature_product(heads.contiguous(), heads.contiguous(), heads.contiguous(), how);
    const auto got = feature_product(heads, heads, heads, how);
    EXPECT_TRUE(got.transpose(1, 2).is_contiguous());
    EXPECT_NEAR_TENSOR(got.cpu(), want.cpu(), kExact);
    const auto wide = at::constant_pad_nd(x, {1, 2}).narrow(-1, 1, width).transpose(1, 2);
    EXPECT_NEAR_TENSOR(feature_product(wide, wide, wide, how).cpu(), want.cpu(), kExact);
  }
}

TEST(FeatureProductCuda, IsTheSameEveryTimeAndInAGraph) {
  const FeatureProduct how = {
      .query_map = FeatureMap::relu, .key_map = FeatureMap::relu, .least = 1e-6};
  const FeatureInputs in(1, 2, 3000, 3000, 64, 64);
  const auto product = [&](const auto& q, const auto& k, const auto& v) {
    return feature_product(q, k, v, how);
  };
  const auto first = results_of(in, kOnGpu, product), again = results_of(in, kOnGpu, product);
  EXPECT_NEAR_TENSOR(again.out, first.out, kExact);
  EXPECT_NEAR_TENSOR(again.dk, first.dk, kExact);

  const auto x = in.q.to(kOnGpu);
  at::Tensor y;
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    y = product(x, x, x);
    graph.capture_end();
  }
  x.copy_(in.k);
  graph.replay();
  c10::cuda::device_synchronize();
  EXPECT_NEAR_TENSOR(y.cpu(), product(x, x, x).cpu(), kExact);
}

}  // namespace
}  // namespace longbow
