#include "longbow/ops/state_space.h"

#include "tests/ops/registered.h"
#include "tests/ops/state_space_inputs.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(StateSpace, IsTheRecurrence) {
  for (const int64_t tokens : {1, 2, 63, 65, 150})
    for (const int64_t groups : {1, 2})
      for (const bool reversed : {false, true}) {
        SCOPED_TRACE(
            c10::str(tokens, " tokens, ", groups, " groups", reversed ? ", reversed" : ""));
        const StateSpaceInputs in(tokens, 4, 3, {groups, 5, reversed});
        const auto want = state_space_results(in, at::kDouble, state_space_recurrence);
        for (const auto& product : {state_space, state_space_formula}) {
          const auto got = state_space_results(in, at::kDouble, product);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble));
        }
      }
}

TEST(StateSpace, BeginsWithNothingWhereThereAreNoSums) {
  const StateSpaceInputs in(9, 4, 3, {2, 5});
  Tensor none;
  auto zeros = at::zeros_like(in.sums);
  EXPECT_NEAR_TENSOR(state_space(in.rows, in.step, in.log_decay, in.skip, in.how, none),
                     state_space_recurrence(in.rows, in.step, in.log_decay, in.skip, in.how, zeros),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(none, zeros, tolerance(at::kDouble));
}

TEST(StateSpace, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("state_space"), "");
}

TEST(StateSpace, RefusesOtherShapes) {
  const StateSpaceInputs in(9, 4, 3, {2, 5});
  const auto error = [&](const Tensor& rows, const Tensor& decay, const Tensor& skip,
                         const StateSpace& how) {
    return error_of([&] {
      Tensor sums;
      (void)state_space(rows, in.step, decay, skip, how, sums);
    });
  };
  EXPECT_EQ(error(in.rows, in.log_decay.narrow(2, 0, 3), in.skip, in.how),
            "state_space: step is [2, 9, 4] but log_decay is [2, 9, 3]");
  EXPECT_EQ(error(in.rows, in.log_decay, in.skip, {3, 5}), "state_space: 4 heads in 3 groups");
  EXPECT_EQ(error(in.rows, in.log_decay, in.skip, {2, 8}),
            "state_space: rows are [2, 9, 32] but steps are [2, 9, 4], with 2 groups of 8");
  EXPECT_EQ(error(in.rows, in.log_decay, in.skip.narrow(0, 0, 2), in.how),
            "state_space: 4 heads but skip is [2]");
}

}  // namespace
}  // namespace longbow
