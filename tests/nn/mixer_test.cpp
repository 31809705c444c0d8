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
