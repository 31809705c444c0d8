#include "longbow/arena/gate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/attention/mechanism.h"

namespace longbow::arena {
namespace {

enum class Flaw { none, reads_padding, reads_the_future, mixes_rows, is_not_a_number };

// The mean over the tokens that may be seen, with one mistake.
class Mean : public MixerImpl {
 public:
  Mean(Flaw flaw, const Promises& promises) : flaw_(flaw) { label({"mean", promises, {}}); }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& mask = context.mask;
    if (flaw_ == Flaw::mixes_rows) return x + x.mean(0, true);
    if (flaw_ == Flaw::is_not_a_number) return x * NAN;
    if (mask.causal && flaw_ != Flaw::reads_the_future) return x.cumsum(1);
    if (!mask.keep.defined() || flaw_ == Flaw::reads_padding) return x.mean(1, true).expand_as(x);
    return (x * mask.keep.unsqueeze(-1)).sum(1, true).expand_as(x);
  }

 private:
  Flaw flaw_;
};

std::string found(Flaw flaw, const Promises& promises = {.future = Future::exact}) {
  Mean mixer(flaw, promises);
  return broken_promise(mixer);
}

TEST(Gate, LetsEveryRowOfTheTableThrough) {
  for (const auto& mechanism : mechanisms()) {
    auto options = Node::map();
    options["name"] = Node::string(mechanism.name);
    EXPECT_EQ(broken_promise(options), "") << mechanism.name;
  }
}

// Options that no layer of 1,024 tokens and two heads has are checked on one that is like those to
// be timed; what fits none of them is told by whoever builds one.
TEST(Gate, BuildsALayerThatTheOptionsFit) {
  const auto broken = [](const std::string& options, const GateSite& timed) {
    return broken_promise(parse_yaml(options, "--mechanism"), timed);
  };
  EXPECT_EQ(broken("{name: linformer, rank: 1100}", {.lengths = {64, 1200}}), "");
  EXPECT_EQ(broken("{name: linformer, rank: 8, max_length: 65}", {.lengths = {64}}), "");
  EXPECT_EQ(broken("{name: softmax, head_mask: [1, 0, 1]}", {.heads = 3, .lengths = {64}}), "");
  EXPECT_EQ(broken("{name: linformer, rank: 1100}", {.lengths = {64}}), "");
  EXPECT_THROW(broken("{name: linformer, rnak: 8}", {}), UserError);
}

TEST(Gate, SaysWhichPromiseIsBroken) {
  EXPECT_EQ(found(Flaw::none), "");
  EXPECT_EQ(found(Flaw::reads_padding), "padding is visible");
  EXPECT_EQ(found(Flaw::reads_the_future), "the future is visible");
  EXPECT_EQ(found(Flaw::mixes_rows, {.padding = Padding::refused}),
            "rows of a batch are not independent");
}

TEST(Gate, ANumberThatIsNoneBreaksEveryPromise) {
  EXPECT_EQ(found(Flaw::is_not_a_number), "padding is visible");
}

TEST(Gate, AsksOnlyForWhatIsPromised) {
  EXPECT_EQ(found(Flaw::reads_padding, {.padding = Padding::refused}), "");
  EXPECT_EQ(found(Flaw::reads_padding, {.padding = Padding::visible}), "");
  EXPECT_EQ(found(Flaw::reads_the_future, {.future = Future::refused}), "");
  EXPECT_EQ(found(Flaw::none, {.future = Future::exact, .bidirectional = false}), "");
}

}  // namespace
}  // namespace longbow::arena
