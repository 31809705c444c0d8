#include "longbow/ops/random_product.h"
#include "tests/ops/random_pasts.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

constexpr auto kExponential = RandomMap::exponential;
const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
const std::vector<std::string> kNames = {"out", "log_sum", "dq", "dk", "dv"};

// The definition in float64 of numbers that were rounded to bfloat16.
void expect_near_definition(RandomInputs in, const at::Tensor& keep, int64_t behind,
                            const std::string& what) {
  SCOPED_TRACE(what + ", behind " + std::to_string(behind));
  for (auto* t : {&in.q, &in.k, &in.v, &in.g, &in.omega}) *t = t->to(at::kBFloat16).to(at::kDouble);
  ASSERT_TRUE(has_random_kernel(in.q.to(kOnGpu), in.k.to(kOnGpu), in.v.to(kOnGpu), kExponential,
                                in.omega.size(1), true));
  const auto how = in.way(kExponential, keep);
  const auto want = random_past_results(in, how, behind, at::kDouble, dense_random_past),
             got = random_past_results(in, how, behind, kOnGpu, random_past);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_LT(roundings(got[i], want[i], in.k.size(2) == behind + 1), 8) << kNames[i];
}

TEST(RandomPastCuda, IsItsDefinition) {
  for (const int64_t n : {1, 64, 65, 257})
    for (const auto& [e, d, p] : {std::tuple{64, 64, 266}, {24, 40, 30}})
      for (const int64_t behind : {0, 1, 33, 300}) {
        auto keep = random_normal({2, n}, 9) > -1;
        keep.select(1, 0).fill_(true);
        const auto what = c10::str(n, " tokens, ", e, " x ", d);
        expect_near_definition({2, 2, n, n, e, d, p}, keep, behind, what);
      }
  expect_near_definition({1, 1, 600, 600, 64, 64, 266}, {}, 33, "600 tokens");
}

TEST(RandomPastCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const RandomInputs in(1, 2, 600, 600, 64, 64, 64);
  auto how = in.way(kExponential);
  how.omega = how.omega.to(kOnGpu);
  const auto x = in.q.to(kOnGpu);
  const auto results = [&](const at::Tensor& keys, int64_t n) {
    const auto part = random_past(x, keys, keys, how, 9);
    return at::cat({part.out.narrow(2, 0, n).to(at::kFloat), part.log_sum.narrow(2, 0, n)}, 3)
        .cpu()
        .clamp_min(-1e30);
  };
  for (const int64_t n : {1, 70, 300}) {
    auto later = x.clone();
    later.narrow(2, n - 1, 601 - n).mul_(-3);
    EXPECT_NEAR_TENSOR(results(later, n), results(x, n), kExact);
  }
}

}  // namespace
}  // namespace longbow
