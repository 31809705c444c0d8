#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/replaced_token.h"
#include "longbow/tasks/masking.h"
#include "longbow/tasks/task.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

DataConfig words() {
  DataConfig data = {.name = "markov"};
  data.options = parse_yaml(
      "{train: 20, valid: 4, test: 4, words: 8, followers: 4, branches: 2, length: 16, length_min: "
      "8}",
      "options");
  return data;
}

std::unique_ptr<Task> made(const std::string& model) {
  return find_objective("replaced_tokens")
      .make(load_data(words()), parse_yaml(model, "m.yaml"), {.bucket = 16});
}

Batch all_of(const Dataset& data) {
  Plan plan = {.padded_length = 16};
  for (int64_t i = 0; i < data.size(); ++i) plan.indices.push_back(i);
  return collate(data, plan);
}

double sum(const Outcome& outcome, const std::string& name) {
  return outcome.sums.at(name).item<double>();
}

TEST(ReplacedTokens, AddsBothLossesAsMeansOverTheirOwnTokens) {
  const auto task = made(
      "{width: 16, masking: {fraction: 0.25}, generator_weight: 2, "
      "detector_weight: 10}");
  task->model().eval();
  auto& model = dynamic_cast<ReplacedTokenModel&>(task->model());
  const auto batch = all_of(*task->splits().train);
  const auto random = Random::from_seed(3);
  const auto keep = Mask::from_lengths(batch.lengths, 16).keep;
  const auto hidden = masked(batch.tokens, keep, {.fraction = 0.25, .masked = 1, .random = 0},
                             MaskIds(task->splits()), random);
  Context context = {.mask = {.keep = keep}, .random = random};
  const auto logits = model.generated(hidden.tokens, context);
  auto filled = batch.tokens.clone();
  const auto draws = drawn(logits, 1, random, "replacement");
  double generator = 0, detector = 0;
  int64_t real = 0, right = 0, replaced = 0, found = 0;
  for (int64_t row = 0; row < batch.samples; ++row)
    for (int64_t at = 0; at < 16; ++at)
      if (hidden.chosen[row][at].item<bool>()) {
        generator -=
            logits[row][at].log_softmax(-1)[batch.tokens[row][at].item<int64_t>()].item<double>();
        filled[row][at] = draws[row][at];
      }
  const auto scores = model(filled, context);
  for (int64_t row = 0; row < batch.samples; ++row)
    for (int64_t at = 0; at < batch.lengths[row].item<int64_t>(); ++at) {
      const bool other = !at::equal(filled[row][at], batch.tokens[row][at]);
      const double score = scores[row][at].item<double>();
      detector += std::log1p(std::exp(other ? -score : score));
      right += (score > 0) == other;
      replaced += other;
      found += other && score > 0;
      ++real;
    }
  ASSERT_GT(replaced, 10);
  const auto got = task->run(batch, random);
  EXPECT_NEAR(sum(got, "generator"), generator, 1e-3);
  EXPECT_NEAR(sum(got, "detector"), detector, 1e-3);
  EXPECT_NEAR(got.loss.item<double>(), 2 * generator / 0.25 + 10 * detector, 1e-2);
  EXPECT_EQ(sum(got, "weight"), real);
  EXPECT_EQ(sum(got, "correct"), right);
  EXPECT_EQ(sum(got, "replaced"), replaced);
  EXPECT_EQ(sum(got, "found"), found);
  const auto metrics = task->metrics(got.sums);
  EXPECT_EQ(metrics[0].name, "detector_loss");
  EXPECT_FALSE(metrics[0].larger_is_better);
  EXPECT_NEAR(metrics[0].value, detector / static_cast<double>(real), 1e-5);
  EXPECT_NEAR(metrics[5].value, std::exp(generator / sum(got, "hidden")), 1e-3);
}

TEST(ReplacedTokens, TheDetectorTeachesTheGeneratorNothing) {
  const auto task = made("{width: 16, generator: {shared: false}, generator_weight: 0}");
  task->run(all_of(*task->splits().train), Random::from_seed(1)).loss.backward();
  int64_t generators = 0;
  for (const auto& entry : task->model().named_parameters()) {
    const auto& gradient = entry.value().grad();
    const double size = gradient.defined() ? gradient.abs().sum().item<double>() : 0;
    if (entry.key().starts_with("generator.")) {
      ++generators;
      EXPECT_EQ(size, 0) << entry.key();
    } else if (entry.key() == "output.weight" || entry.key() == "encoder.embedding.words") {
      EXPECT_GT(size, 0) << entry.key();
    }
  }
  EXPECT_GT(generators, 5);
}

TEST(ReplacedTokens, SpellsTheGeneratorOut) {
  const auto generator =
      *made("{width: 16, heads: 4, layers: 3}")->model_config().find("generator");
  EXPECT_EQ(generator.find("width")->text, "4");
  EXPECT_EQ(generator.find("heads")->text, "1");
  EXPECT_EQ(generator.find("layers")->text, "3");
  EXPECT_EQ(generator.find("attention")->find("name")->text, "softmax");
}

TEST(ReplacedTokens, RefusesAGeneratorThatCannotBeBuilt) {
  EXPECT_EQ(error_of([&] {
              find_objective("replaced_tokens")
                  .check(parse_yaml("width: 16\ngenerator: {width: 5, heads: 2}", "m.yaml"));
            }),
            "m.yaml:2: model.width 5 is not a multiple of model.heads 2; change one of them, or "
            "set model.head_width");
}

TEST(ReplacedTokens, ChecksTheOptionsOfTheGeneratorAgainstItsOwnSize) {
  const auto check = [](const std::string& text) {
    return error_of([&] { find_objective("replaced_tokens").check(parse_yaml(text, "m.yaml")); });
  };
  EXPECT_EQ(check("heads: 8\nattention:\n  name: softmax\n  head_mask: [1, 1, 1, 1, 1, 1, 1, 1]"),
            "m.yaml:4: softmax.head_mask has 8 entries for 2 heads; give one for each head, or "
            "leave it out");
  EXPECT_EQ(check("width: 16\ntransform: false"),
            "m.yaml:2: words of width 16 are tied to a model of width 4 without a transform; set "
            "model.transform: true, or model.tied: false");
  EXPECT_EQ(check("width: 16\ntransform: false\ngenerator: {shared: false}"), "");
}

}  // namespace
}  // namespace longbow
