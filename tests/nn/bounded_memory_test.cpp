#include "longbow/nn/slots/bounded_memory.h"

#include <ATen/ATen.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kTokens = 9, kSlots = 5, kWidth = 3;
const Tolerance kClose = {1e-12, 1e-12};

Written some(uint64_t seed) {
  return {.rows = random_normal({2, 2, kTokens, kWidth}, seed),
          .weights = random_normal({1, 2, kTokens, kSlots}, seed + 1),
          .divisor = random_normal({2, 1, kTokens, kSlots}, seed + 2).abs() + 0.5,
          .bias = random_normal({1, 2, kSlots, 1}, seed + 3)};
}

// The slots after token t, as the definition says.
Tensor slots_after(const Written& w, int64_t t) {
  const auto sums = w.weights.narrow(2, 0, t + 1).mT().matmul(w.rows.narrow(2, 0, t + 1));
  return sums / w.divisor.narrow(2, t, 1).mT() + w.bias;
}

TEST(BoundedMemory, EachQueryReadsWhatWasWrittenUpToIt) {
  const auto keys = some(1), values = some(10);
  const auto q = random_normal({2, 2, kTokens, kWidth}, 20);
  const auto visible = random_normal({1, 1, kTokens, kSlots}, 21) > -1;
  Context context;
  const auto y = read_memory(q, keys, values, visible, {}, context);
  for (int64_t t = 0; t < kTokens; ++t)
    EXPECT_NEAR_TENSOR(y.narrow(2, t, 1),
                       oracle::softmax(q.narrow(2, t, 1) * std::sqrt(static_cast<double>(kWidth)),
                                       slots_after(keys, t), slots_after(values, t),
                                       visible.narrow(2, t, 1).to(at::kDouble)),
                       kClose);
}

TEST(BoundedMemory, ThePastIsWhatWasWrittenBefore) {
  const auto keys = some(1), values = some(10);
  const auto q = random_normal({2, 2, kTokens, kWidth}, 20);
  Context context;
  const auto whole = read_memory(q, keys, values, {}, {}, context);
  const auto part = [](const Written& w, int64_t first, int64_t count, const Tensor& past) {
    const auto cut = [&](const Tensor& t) { return t.narrow(2, first, count); };
    return Written{cut(w.rows), cut(w.weights), cut(w.divisor), w.bias, past};
  };
  const auto past_keys = grown_memory(part(keys, 0, 4, {})),
             past_values = grown_memory(part(values, 0, 4, {}));
  EXPECT_NEAR_TENSOR(read_memory(q.narrow(2, 4, 5), part(keys, 4, 5, past_keys),
                                 part(values, 4, 5, past_values), {}, {}, context),
                     whole.narrow(2, 4, 5), kClose);
}

TEST(BoundedMemory, ShowsItsWeights) {
  Tensors maps;
  Context context = {.maps = &maps};
  read_memory(random_normal({2, 2, kTokens, kWidth}, 3), some(1), some(10), {}, {.path = "here"},
              context);
  EXPECT_NEAR_TENSOR(maps.at("here").sum(-1), at::ones({2, 2, kTokens}, at::kDouble), kClose);
}

}  // namespace
}  // namespace longbow
