#include "longbow/nn/layers/taps.h"

#include <ATen/ATen.h>

#include "longbow/nn/layers/past_rows.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kWidth = 6;

// Tap by tap; taps [B, H, N, K].
Tensor loops(const Tensor& z, const Tensor& taps, int64_t left) {
  const auto y = at::zeros_like(z);
  const int64_t group = z.size(2) / taps.size(1);
  for (int64_t b = 0; b < z.size(0); ++b)
    for (int64_t t = 0; t < z.size(1); ++t)
      for (int64_t c = 0; c < z.size(2); ++c)
        for (int64_t j = 0; j < taps.size(3); ++j) {
          const int64_t from = t + j - left;
          if (from >= 0 && from < z.size(1)) y[b][t][c] += taps[b][c / group][t][j] * z[b][from][c];
        }
  return y;
}

TEST(Taps, AreASumOverNeighbours) {
  for (const int64_t n : {1, 2, 17, 40})
    for (const int64_t k : {1, 2, 5, 50})
      for (const int64_t left : {k - 1, (k - 1) / 2}) {
        const auto z = random_normal({kBatch, n, kWidth}, 1);
        const auto own = random_normal({kBatch, kHeads, n, k}, 2);
        EXPECT_NEAR_TENSOR(windowed_taps(z, own, left), loops(z, own, left),
                           tolerance(at::kDouble));
        const auto same = random_normal({kHeads, k}, 3);
        const auto repeated =
            same.unsqueeze(0).unsqueeze(2).expand({kBatch, kHeads, n, k}).contiguous();
        EXPECT_NEAR_TENSOR(windowed_taps(z, same, left), loops(z, repeated, left),
                           tolerance(at::kDouble));
      }
}

TEST(Taps, RowsContinueASequence) {
  constexpr int64_t n = 11, k = 4;
  const auto z = random_normal({kBatch, n, kWidth}, 4), taps = random_normal({kHeads, k}, 5);
  const auto want = windowed_taps(z, taps, k - 1);
  State state;
  open_past_rows(state, "rows", kBatch, k - 1, kWidth, z.options());
  int64_t first = 0;
  for (const int64_t count : {1, 6, 2, 2}) {
    const Context context = {.positions = at::arange(count)};
    EXPECT_NEAR_TENSOR(
        taps_over(grow_past_rows(state, "rows", z.narrow(1, first, count), context), taps),
        want.narrow(1, first, count), tolerance(at::kDouble));
    first += count;
  }
}

TEST(Taps, SumsAreInTheTypeOfTheTaps) {
  const auto z = at::ones({1, 3, 2}, at::kBFloat16);
  EXPECT_EQ(windowed_taps(z, at::ones({1, 2}), 0).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace longbow
