#include <ATen/ATen.h>

#include "tests/ops/delta_both.h"
#include "tests/ops/roundings.h"

namespace longbow {
namespace {

TEST(DeltaProductsCuda, AreTwoProductsForAllShapes) {
  const auto gpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
  for (const int64_t tokens : {1, 63, 64, 200})
    for (const auto& [p, d] : {std::pair{64, 64}, {24, 40}, {8, 8}})
      for (const bool fades : {false, true}) {
        SCOPED_TRACE(c10::str(tokens, " tokens, ", p, " x ", d, fades ? ", fading" : ""));
        const auto want = both_deltas(tokens, p, d, fades, at::kDouble, false),
                   got = both_deltas(tokens, p, d, fades, gpu, true),
                   alone = both_deltas(tokens, p, d, fades, gpu, false);
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_LT(roundings(got[i], want[i], tokens == 1), 4) << i;
          EXPECT_LT(roundings(got[i], alone[i], tokens == 1), 0.01) << i;
        }
      }
}

}  // namespace
}  // namespace longbow
