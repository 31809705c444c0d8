// The classes of linformer-pytorch learn with each of their ways to attend.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/data/sets/markov.h"
#include "longbow/data/sets/reverse.h"
#include "longbow/models/linformer_pytorch/linformer.h"
#include "longbow/tasks/language.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

struct Way {
  std::string name;
  bool full = false;
  ProjectionMethod method = ProjectionMethod::learnable;
  CheckpointLevel level = CheckpointLevel::C0;
  int64_t fewer = 0;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

LinformerLMConfig small(const Way& way, int64_t length, int64_t words) {
  LinformerLMConfig config;
  config.num_tokens = words;
  config.input_size = length;
  config.channels = 32;
  config.dim_k = 6;
  config.dim_ff = 64;
  config.nhead = 2;
  config.dropout = config.dropout_ff = config.dropout_tokens = 0.02;
  config.full_attention = way.full;
  config.method = way.method;
  config.checkpoint_level = way.level;
  config.k_reduce_by_layer = way.fewer;
  if (way.fewer > 0) config.parameter_sharing = LengthSharing::kv;
  return config;
}

class Lecture : public Task {
 public:
  std::vector<Metric> metrics(const Tensors& sums) const override {
    return {{"loss", mean_of(sums, "loss", "weight"), false}};
  }
  Node model_config() const override { return Node::map(); }
  Node model_card() const override { return Node::map(); }

 protected:
  explicit Lecture(const Splits& splits) : Task(splits, {}) {}
};

class NextWord : public Lecture {
 public:
  NextWord(const Splits& splits, const LinformerLMConfig& config)
      : Lecture(splits), net_(std::make_shared<LinformerLM>(config, 1)) {}
  Part& model() override { return *net_; }
  Outcome run(const Batch& batch, const Random& random) override {
    const auto logits = (*net_)(batch.tokens, {.random = random});
    return classification_loss(logits, next_tokens(batch.tokens, batch.lengths), batch.samples,
                               options_, false);
  }

 private:
  std::shared_ptr<LinformerLM> net_;
};

class Reversal : public Lecture {
 public:
  Reversal(const Splits& splits, const LinformerEncDecConfig& config)
      : Lecture(splits), net_(std::make_shared<LinformerEncDec>(config, 1)) {}
  Part& model() override { return *net_; }
  Outcome run(const Batch& batch, const Random& random) override {
    const auto known = batch.second.narrow(1, 0, batch.second.size(1) - 1);
    const auto begin = at::full({batch.samples, 1}, splits_.begin, known.options());
    const auto logits = (*net_)(batch.tokens, at::cat({begin, known}, 1),
                                {.input_mask = batch.tokens != 0, .random = random});
    return classification_loss(logits, batch.second, batch.samples, options_, false);
  }

 private:
  std::shared_ptr<LinformerEncDec> net_;
};

// The loss on the test split after so many steps.
double taught(Task& task, int64_t steps) {
  const SamplerConfig sampler = {.batch_size = 64, .bucket = task.splits().max_length};
  Loader loader(task.splits().train, Sampler(lengths_of(*task.splits().train), sampler, 1),
                {.threads = 0});
  Step step(task, {.nominal = 64});
  for (int64_t i = 0; i < steps; ++i)
    step.run({loader.next()}, i,
             5e-3 * schedule_factor({.warmup_steps = 20}, {.step = i + 1, .total = steps}));
  const auto loss = evaluate(task, *task.splits().test, sampler).metrics.front().value;
  testing::Test::RecordProperty("loss", std::to_string(loss));
  return loss;
}

struct LinformerTrain : testing::TestWithParam<Way> {};

TEST_P(LinformerTrain, ALanguageModelKnowsMoreThanTheLastWord) {
  const MarkovConfig words = {.train = 2048,
                              .valid = 64,
                              .test = 128,
                              .words = 8,
                              .followers = 4,
                              .branches = 2,
                              .length = 12};
  const auto splits = make_markov(words, 1);
  auto config = small(GetParam(), words.length, splits.vocabulary);
  config.causal = true;
  NextWord task(splits, config);
  const auto loss = taught(task, 200);
  const auto entropy = markov_entropy(MarkovChain(words, 1));
  EXPECT_LT(loss, 0.9);
  EXPECT_LT(0.9, entropy.given_one - 0.1) << "what the last word alone tells";
  EXPECT_GT(loss, entropy.loss(words.length) - 0.05) << "nobody can";
}

// Seven targets a sample, of which the last is always the end; without the source the other six are
// any of five symbols.
TEST_P(LinformerTrain, AnEncoderDecoderReverses) {
  const auto splits = make_reverse(
      {.train = 2000, .valid = 64, .test = 64, .symbols = 5, .length = 6, .length_min = 6}, 1);
  LinformerEncDecConfig config;
  config.enc = small(GetParam(), splits.max_length, splits.vocabulary);
  config.dec = small(GetParam(), splits.max_length, splits.second_vocabulary);
  config.checkpoint_level = GetParam().level;
  Reversal task(splits, config);
  EXPECT_LT(taught(task, 200), 0.1);
  EXPECT_GT(6 * std::log(5) / 7, 1.3);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, LinformerTrain,
    testing::Values(Way{"full", true}, Way{"learnable"},
                    Way{"convolution", false, ProjectionMethod::convolution},
                    Way{"recomputed", false, ProjectionMethod::learnable, CheckpointLevel::C2},
                    Way{"shrinking", false, ProjectionMethod::learnable, CheckpointLevel::C0, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace longbow
