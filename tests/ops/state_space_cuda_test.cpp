#include <ATen/ATen.h>

#include "tests/ops/roundings.h"
#include "tests/ops/state_space_inputs.h"

namespace longbow {
namespace {

using at::Tensor;

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");
const std::vector<std::string> kNames = {"out",        "sums",  "drows", "dstep",
                                         "dlog_decay", "dskip", "dsums"};

// The recurrence in float64 of numbers that were rounded to bfloat16, and the kernels.
void expect_near_recurrence(StateSpaceInputs in, const std::string& what) {
  SCOPED_TRACE(what);
  for (auto* t : {&in.rows, &in.dout}) *t = t->to(at::kBFloat16).to(at::kDouble);
  const auto wide = kOnGpu.dtype(at::kFloat);
  ASSERT_TRUE(
      has_state_space_kernel(in.rows.to(kOnGpu), in.step.to(wide), in.log_decay.to(wide), in.how));
  const auto want = state_space_results(in, at::kDouble, state_space_recurrence),
             got = state_space_results(in, kOnGpu, state_space);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LT(roundings(got[i], want[i], in.rows.size(1) == 1), 4) << kNames[i];
}

TEST(StateSpaceCuda, IsTheRecurrenceForAllLengths) {
  for (const int64_t tokens : {2, 15, 64, 127, 128, 129, 300})
    for (const bool reversed : {false, true})
      expect_near_recurrence({tokens, 2, 64, {1, 32, reversed}},
                             c10::str(tokens, " tokens", reversed ? ", reversed" : ""));
}

TEST(StateSpaceCuda, IsTheRecurrenceForAllWidths) {
  for (const auto& [heads, width, groups, state] :
       {std::tuple{1, 8, 1, 8}, {4, 24, 2, 40}, {3, 64, 3, 128}, {6, 8, 2, 64}})
    expect_near_recurrence({150, heads, width, {groups, state}},
                           c10::str(heads, " heads of ", width, " in ", groups, ", ", state));
}

TEST(StateSpaceCuda, TokensWithoutStepsWriteNothing) {
  StateSpaceInputs in(200, 2, 16, {1, 32});
  in.step.narrow(1, 50, 100).zero_();
  in.log_decay.narrow(1, 50, 100).zero_();
  expect_near_recurrence(in, "no steps of 100 tokens");
}

TEST(StateSpaceCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const StateSpaceInputs in(300, 2, 16, {1, 32});
  const auto out = [&](int64_t same) {
    const auto later = [&](const Tensor& t, double by) {
      auto other = t.clone();
      other.narrow(1, same, 300 - same).mul_(by);
      return other;
    };
    const auto wide = kOnGpu.dtype(at::kFloat);
    Tensor sums;
    return state_space(later(in.rows, 100).to(kOnGpu), later(in.step, 3).to(wide),
                       later(in.log_decay, 2).to(wide), in.skip.to(wide), in.how, sums)
        .cpu();
  };
  const auto all = out(300);
  for (const int64_t n : {1, 70, 200})
    EXPECT_NEAR_TENSOR(out(n).narrow(1, 0, n), all.narrow(1, 0, n), kExact);
}

TEST(StateSpaceCuda, UsesTheFormulaForOtherShapes) {
  const StateSpaceInputs in(70, 2, 16, {1, 5});
  const auto product = [&](const auto& of) {
    return state_space_results(in, kOnGpu.dtype(at::kFloat), of);
  };
  const auto want = product(state_space_formula), got = product(state_space);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-5, 1e-5}));
}

// As a decoding step does, with sums of before and without, and as training does.
TEST(StateSpaceCuda, TakesASingleToken) {
  const auto wide = kOnGpu.dtype(at::kFloat);
  for (const auto& [heads, width, groups, state] :
       {std::tuple{4, 6, 2, 5}, {1, 1, 1, 1}, {3, 40, 1, 128}})
    for (const bool half : {false, true})
      for (const bool begun : {false, true}) {
        SCOPED_TRACE(c10::str(heads, " heads of ", width, " in ", groups, ", ", state, begun));
        StateSpaceInputs in(1, heads, width, {groups, state});
        in.rows = in.rows.to(at::kBFloat16).to(at::kDouble);
        auto want_sums = begun ? in.sums : at::zeros_like(in.sums),
             sums = begun ? in.sums.to(wide) : Tensor();
        const auto rows = at::constant_pad_nd(in.rows, {8, 8}).to(half ? kOnGpu : wide);
        const auto want = state_space_recurrence(in.rows, in.step, in.log_decay, in.skip, in.how,
                                                 want_sums),
                   got = state_space(rows.narrow(2, 8, in.rows.size(2)), in.step.to(wide),
                                     in.log_decay.to(wide), in.skip.to(wide), in.how, sums);
        EXPECT_LT(roundings(got.cpu().to(at::kDouble), want, false), half ? 2 : 0.01);
        EXPECT_NEAR_TENSOR(sums.cpu().to(at::kDouble), want_sums, (Tolerance{1e-5, 1e-5}));
      }
  const StateSpaceInputs in(1, 4, 6, {2, 5});
  const auto want = state_space_results(in, at::kDouble, state_space_recurrence),
             got = state_space_results(in, wide, state_space);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-4, 1e-4}));
}

}  // namespace
}  // namespace longbow
