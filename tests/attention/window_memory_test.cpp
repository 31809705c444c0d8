#include "longbow/attention/linformer/window_memory.h"

#include <ATen/ATen.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kTokens = 11, kWidth = 3;
const Tolerance kClose = {1e-12, 1e-12};

Heads some() {
  const auto rows = [](uint64_t seed) { return random_normal({2, 2, kTokens, kWidth}, seed); };
  const auto x = random_normal({2, kTokens, kWidth}, 4);
  return {rows(1), rows(2), rows(3), x, x};
}

LengthProjection pool(int64_t slots, int64_t longest) {
  return {LengthMethod::mean_pool, LengthScale::mass, slots, longest};
}

TEST(WindowMemory, WindowsOfOneTokenAndOneWindowAreSoftmax) {
  const auto heads = some();
  Context context = {.mask = {.causal = true}};
  const auto want = oracle::softmax(heads.q * std::sqrt(static_cast<double>(kWidth)), heads.k,
                                    heads.v, oracle::visible(context, 2, kTokens, kTokens));
  for (const int64_t slots : {kTokens, int64_t{1}}) {
    const auto p = pool(slots, kTokens);
    EXPECT_NEAR_TENSOR(read_windows(heads, p, p, {}, context), want, kClose) << slots;
  }
}

TEST(WindowMemory, AnEarlierWindowIsReadAsItsMean) {
  const auto heads = some();
  const auto p = pool(3, 12);
  Context context = {.mask = {.causal = true}};
  const auto y = read_windows(heads, p, p, {}, context);
  const auto rows = [](const Tensor& x) {  // of query 9, in the third window
    return at::cat(
        {x.narrow(2, 0, 4).mean(2, true), x.narrow(2, 4, 4).mean(2, true), x.narrow(2, 8, 2)}, 2);
  };
  EXPECT_NEAR_TENSOR(
      y.narrow(2, 9, 1),
      oracle::softmax(heads.q.narrow(2, 9, 1) * std::sqrt(static_cast<double>(kWidth)),
                      rows(heads.k), rows(heads.v), at::ones({1, 1, 1, 1}, at::kDouble)),
      kClose);
}

TEST(WindowMemory, ExtensionsAreTheForwardPass) {
  const auto heads = some();
  const auto p = pool(3, 12);
  Context context = {.mask = {.causal = true}};
  const auto whole = read_windows(heads, p, p, {}, context);
  for (const int64_t most : {1, 3, 6, 11}) {
    State state;
    open_windows(state, heads, p);
    context.positions = at::arange(kTokens).unsqueeze(0).expand({2, -1});
    EXPECT_NEAR_TENSOR(in_pieces(heads, context, most,
                                 [&](const Heads& piece, Context& inner) {
                                   return grow_windows(piece, p, p, {}, state, inner);
                                 }),
                       whole, kClose);
    EXPECT_EQ(state.lane.at("window_keys").size(2), 5) << "one window and a place for padding";
  }
}

}  // namespace
}  // namespace longbow
