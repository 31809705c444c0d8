#include "longbow/ops/delta_products.h"

#include "tests/ops/delta_both.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(DeltaProducts, AreTwoProducts) {
  for (const bool fades : {false, true}) {
    const auto got = both_deltas(70, 5, 4, fades, at::kDouble, true),
               want = both_deltas(70, 5, 4, fades, at::kDouble, false);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble));
  }
}

TEST(DeltaProducts, AreAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("delta_products"), "");
}

TEST(DeltaProducts, RefuseOtherShapes) {
  const auto x = random_normal({1, 2, 7, 4}, 1), beta = random_normal({1, 2, 7, 1}, 2);
  EXPECT_EQ(error_of([&] {
              (void)delta_products({x, x, x}, {x, x.narrow(3, 0, 2), x}, beta, {}, 1);
            }),
            "delta_product: q is [1, 2, 7, 4] but k is [1, 2, 7, 2]");
}

}  // namespace
}  // namespace longbow
