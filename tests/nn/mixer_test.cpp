#include "longbow/nn/contract/mixer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

// The sum of what stands before each token: knows order, and notices a wrong alignment.
class Sums : public MixerImpl {
 public:
  explicit Sums(const Promises& promises) {
    label(
        {"sums", promises, [](bool (*)(const Promises&)) { return std::string("linear, local"); }});
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    EXPECT_FALSE(context.mask.ragged) << "rows come aligned";
    context.carry["seen"] = x.sum();
    const auto& keep = context.mask.keep;
    return (keep.defined() ? x * keep.unsqueeze(-1) : x).cumsum(1);
  }
  void open(State&, int64_t, int64_t, Context&) override {}
  Tensor grow(const Tensor& x, State&, Context& context) override { return mix(x, context); }
};

Tensor flags(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).to(at::kBool).view(shape);
}

std::string refused(const Promises& promises, Context context) {
  Sums mixer(promises);
  return error_of([&] { mixer(at::zeros({1, 2, 3}), context); });
}

TEST(Mixer, ACallBeyondThePromisesNamesMechanismsThatKeepThem) {
  EXPECT_EQ(refused({}, {.mask = {.causal = true}}),
            "sums: is not causal; mechanisms that do: linear, local");
  EXPECT_EQ(refused({.bidirectional = false}, {}),
            "sums: is causal only; mechanisms that do: linear, local");
  EXPECT_EQ(refused({}, {.memory = at::zeros({1, 2, 3})}),
            "sums: cannot attend to a memory; mechanisms that do: linear, local");
  EXPECT_EQ(refused({.padding = Padding::refused}, {.mask = {.keep = flags({1, 1}, {1, 2})}}),
            "sums: cannot hide padding; mechanisms that do: linear, local");
  EXPECT_EQ(refused({}, {.mask = {.globals = at::zeros({1, 1}, at::kLong)}}),
            "sums: has no global tokens; mechanisms that do: linear, local");
  EXPECT_EQ(refused({}, {.mask = {.keep = flags({1, 1, 1}, {1, 3})}}),
            "sums: keep is [1, 3], but there are 1 rows of 2 keys");
  EXPECT_EQ(refused({}, {}), "");
}

// The same calls while decoding.
TEST(Mixer, StartAndExtendKeepToThePromisesToo) {
  State state;
  Context crossing = {.memory = at::zeros({1, 2, 3})};
  EXPECT_EQ(error_of([&] { Sums({.decode = true}).start(state, 1, 4, crossing); }),
            "sums: cannot attend to a memory; mechanisms that do: linear, local");
  crossing.mask.keep = flags({1, 1, 1}, {1, 3});
  EXPECT_EQ(error_of([&] { Sums({.cross = true, .decode = true}).start(state, 1, 4, crossing); }),
            "sums: keep is [1, 3], but there are 1 rows of 2 keys");
  const auto extended = [&](const Promises& promises, const Mask& mask) {
    Sums mixer(promises);
    Context opening, context = {.mask = mask};
    mixer.start(state, 1, 4, opening);
    return error_of([&] { mixer.extend(at::zeros({1, 2, 3}), state, context); });
  };
  EXPECT_EQ(
      extended({.padding = Padding::refused, .decode = true}, {.keep = flags({1, 1}, {1, 2})}),
      "sums: cannot hide padding; mechanisms that do: linear, local");
  EXPECT_EQ(extended({.decode = true}, {.globals = at::zeros({1, 1}, at::kLong)}),
            "sums: has no global tokens; mechanisms that do: linear, local");
  EXPECT_EQ(extended({.decode = true}, {.keep = flags({1, 1, 1}, {1, 3})}),
            "sums: keep is [1, 3], but there are 1 rows of 2 keys");
  EXPECT_EQ(extended({.decode = true}, {.keep = flags({1, 0}, {1, 2})}), "");
}

TEST(Mixer, AStateHoldsNoMoreTokensThanItHasRoomFor) {
  Sums mixer({.decode = true});
  State state;
  Context context, padded = {.mask = {.keep = flags({1, 0, 0, 0}, {2, 2})}},
                   empty = {.mask = {.keep = flags({0, 1}, {2, 1})}};
  mixer.start(state, 2, 3, context);
  const auto extended = [&](int64_t tokens, Context& with) {
    return error_of([&] { mixer.extend(at::zeros({2, tokens, 3}), state, with); });
  };
  EXPECT_EQ(extended(2, context), "");
  EXPECT_EQ(extended(2, padded), "") << "padded tokens need no room";
  EXPECT_EQ(extended(1, context), "sums: 4 tokens, but the state has room for 3");
  EXPECT_EQ(extended(1, empty), "");
  EXPECT_EQ(state.seen.sum().item<int64_t>(), 6);
  state.reset(at::ones({2}, at::kBool));
  EXPECT_EQ(extended(3, context), "");
}

TEST(Mixer, AWrongShapeOrAMissingStateIsRefused) {
  Sums mixer({.decode = true});
  Context context;
  State state;
  EXPECT_EQ(error_of([&] {
              mixer(at::zeros({2, 3}), context);
            }),
            "sums: x is [2, 3], but needs [batch, tokens, width]");
  EXPECT_EQ(error_of([&] {
              mixer.extend(at::zeros({1, 2, 3}), state, context);
            }),
            "sums: extend before start");
  EXPECT_EQ(error_of([&] { Sums({}).start(state, 1, 4, context); }),
            "sums: has no decoding state; mechanisms that do: linear, local");
}

TEST(Mixer, RaggedRowsAreAlignedAndPutBack) {
  Sums mixer({});
  const auto x = at::tensor({9.0, 1.0, 9.0, 2.0, 3.0}, at::kDouble).view({1, 5, 1});
  Context context = {.mask = Mask::from_keep(flags({0, 1, 0, 1, 1}, {1, 5}))};
  const auto want = at::tensor({0.0, 1.0, 0.0, 3.0, 6.0}, at::kDouble).view({1, 5, 1});
  EXPECT_NEAR_TENSOR(mixer(x, context), want, kExact);
  EXPECT_TRUE(context.mask.ragged) << "the caller's mask stays";
  EXPECT_TRUE(context.carry.count("seen")) << "what a layer carries comes out";
}

TEST(Mixer, PaddedQueriesGiveZeros) {
  Sums mixer({});
  Context context = {.mask = Mask::from_lengths(at::tensor({2}, at::kLong), 3)};
  const auto y = mixer(at::ones({1, 3, 1}, at::kDouble), context);
  EXPECT_NEAR_TENSOR(y.flatten(), at::tensor({1.0, 2.0, 0.0}, at::kDouble), kExact);
}

}  // namespace
}  // namespace longbow
