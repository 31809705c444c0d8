// Layers whose view is a whole sequence recall what they read 1,000 tokens earlier: one of four
// words is among the first 32 of 1,024 tokens, all others are blanks, and the last token says which
// word it was.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/train/optimizers/optimizer.h"

namespace longbow {
namespace {

constexpr int64_t kTokens = 1024, kEarly = 32, kWords = 4, kWidth = 16;

struct Batch {
  Tensor tokens, answers;  // [B, N], [B]
};

// Every word equally often, each at a place of its own. At first the gradient of the words is less
// than a millionth of that of the blanks in ssd. If words are drawn one by one, so that a batch has
// unequal numbers of them, ssd still guesses after 300 steps.
Batch drawn(int64_t size, int64_t step) {
  const auto answers = at::arange(size) % kWords;
  const auto place =
      (Random::from_seed(1, step).uniform({size, 1}, "places") * kEarly).to(at::kLong);
  return {at::full({size, kTokens}, kWords).scatter(1, place, answers.unsqueeze(1)), answers};
}

struct Learner {
  std::string attention;
  int64_t heads, batch, steps;
};
void PrintTo(const Learner& learner, std::ostream* out) {
  *out << learner.attention;
}

class Model : public Part {
 public:
  explicit Model(const Learner& learner) {
    const Site site = {.shape = {.width = kWidth, .heads = learner.heads, .max_length = kTokens},
                       .init = "xavier",
                       .seed = 3};
    table_ = parameter("table", initial_normal(site, "table", {kWords + 1, kWidth}, 1));
    block_ =
        register_module("block", make_block(parse_yaml(learner.attention, "attention"),
                                            site.at("block"), {.feed_forward = {.width = 32}}));
    head_ = register_module("head", std::make_shared<Linear>(site.at("head"), kWidth, kWords));
  }
  Tensor operator()(const Tensor& tokens) const {
    Context context = {.mask = {.causal = true}};
    return (*head_)(block_->forward(at::embedding(table_, tokens), context).select(1, kTokens - 1));
  }

 private:
  Tensor table_;
  Block block_;
  std::shared_ptr<Linear> head_;
};

// The share of words that the model knows at the end of sequences that it has not been trained on.
double learnt(const Learner& learner) {
  Model model(learner);
  Weights weights(model, at::kFloat);
  const auto optimizer = make_optimizer(weights.all(), {.weight_decay = 0});
  for (int64_t step = 0; step < learner.steps; ++step) {
    const auto batch = drawn(learner.batch, step);
    at::cross_entropy_loss(model(batch.tokens), batch.answers).backward();
    weights.collect();
    const auto left =
        static_cast<double>(learner.steps - step) / static_cast<double>(learner.steps);
    optimizer->step(at::full({}, 0.01 * left), at::ones({}));
    weights.publish();
  }
  const at::NoGradGuard no_grad;
  const auto test = drawn(128, learner.steps);
  const auto share =
      (model(test.tokens).argmax(1) == test.answers).to(at::kDouble).mean().item<double>();
  testing::Test::RecordProperty("share", std::to_string(share));
  return share;
}

std::string name_of(const testing::TestParamInfo<Learner>& info) {
  const auto& text = info.param.attention;
  return text.substr(7, text.find(',') - 7);
}

struct LongRangeTrain : testing::TestWithParam<Learner> {};
TEST_P(LongRangeTrain, TheWordIsKnownAtTheEnd) {
  EXPECT_GE(learnt(GetParam()), 0.95) << "a guess has 0.25";
}
// S4D's steps start at 0.01 at most, so that every channel still holds exp(-5) of what is 1,000
// tokens back.
INSTANTIATE_TEST_SUITE_P(
    Layers, LongRangeTrain,
    testing::Values(Learner{"{name: s4d, state: 16, largest_step: 0.01}", 1, 8, 400},
                    Learner{"{name: ssd, state: 8, expand: 2}", 16, 4, 400},
                    Learner{"{name: hyena, filter_width: 16}", 1, 4, 300},
                    Learner{"{name: mega, chunk: 0, shared: 16, components: 4}", 1, 4, 120}),
    name_of);

TEST(LongRangeTrain, AWindowDoesNotReachTheWord) {
  EXPECT_LT(learnt({"{name: local, window: 64}", 1, 4, 60}), 0.5);
}

}  // namespace
}  // namespace longbow
