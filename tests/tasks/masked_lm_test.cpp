#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/language_model.h"
#include "longbow/tasks/masking.h"
#include "longbow/tasks/task.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// Any data will do; this is made for classification.
DataConfig listops() {
  DataConfig data = {.name = "listops"};
  data.options =
      parse_yaml("{train: 20, valid: 4, test: 4, min_length: 8, max_length: 30}", "options");
  return data;
}

std::unique_ptr<Task> made(const DataConfig& data, const std::string& model = "{width: 8}") {
  return find_objective("masked_lm")
      .make(load_data(data), parse_yaml(model, "m.yaml"), {.bucket = 32});
}

Batch all_of(const Dataset& data) {
  Plan plan = {.padded_length = 32};
  for (int64_t i = 0; i < data.size(); ++i) plan.indices.push_back(i);
  return collate(data, plan);
}

TEST(MaskedLm, SumsTheLossOfHiddenTokensOnly) {
  const auto task = made(listops(), "{width: 8, masking: {fraction: 0.3}}");
  task->model().eval();
  const auto batch = all_of(*task->splits().train);
  const auto random = Random::from_seed(3);
  const auto keep = Mask::from_lengths(batch.lengths, 32).keep;
  const MaskIds ids(task->splits());
  const auto hidden = masked(batch.tokens, keep, {.fraction = 0.3}, ids, random);
  Context context = {.mask = {.keep = keep}};
  const auto logits = dynamic_cast<LanguageModel&>(task->model())(hidden.tokens, context);
  EXPECT_EQ(logits.size(-1), task->splits().vocabulary);
  double want = 0;
  int64_t count = 0;
  for (int64_t row = 0; row < batch.samples; ++row)
    for (int64_t at = 0; at < 32; ++at)
      if (hidden.chosen[row][at].item<bool>()) {
        const auto word = batch.tokens[row][at].item<int64_t>();
        want -= logits[row][at].log_softmax(-1)[word].item<double>();
        ++count;
      }
  ASSERT_GT(count, 50);
  const auto got = task->run(batch, random);
  EXPECT_NEAR(got.loss.item<double>(), want, 1e-3);
  EXPECT_EQ(got.sums.at("count").item<int64_t>(), count);
}

TEST(MaskedLm, TheMaskTokenHasARowButIsNoAnswer) {
  const auto task = made(listops());
  const auto vocabulary = task->splits().vocabulary;
  const auto weights = task->model().named_parameters();
  EXPECT_EQ(weights["encoder.embedding.words"].size(0), vocabulary + 1);
  EXPECT_EQ(weights["head.bias"].size(0), vocabulary);
  EXPECT_EQ(as_integer(*task->model_card().find("mask_token"), ""), vocabulary);
}

TEST(MaskedLm, WhatIsHiddenIsAFunctionOfTheKey) {
  const auto task = made(listops());
  task->model().eval();
  const auto batch = all_of(*task->splits().train);
  const auto loss = [&](int64_t step) {
    return task->run(batch, Random::from_seed(0, step)).loss.item<double>();
  };
  EXPECT_EQ(loss(4), loss(4));
  EXPECT_NE(loss(4), loss(5));
}

TEST(MaskedLm, RefusesSharesThatDoNotFit) {
  EXPECT_EQ(error_of([&] {
              find_objective("masked_lm")
                  .check(parse_yaml("masking: {masked: 1, random: 0.1}", "m.yaml"));
            }),
            "m.yaml:1: masking.masked and masking.random are more than 1 together; what they leave "
            "of 1 stays as it is");
}

}  // namespace
}  // namespace longbow
