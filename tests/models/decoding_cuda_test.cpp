#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/language_model.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWords = 11, kLanes = 3;

std::shared_ptr<LanguageModel> model_of(const std::string& attention) {
  LanguageModelConfig config;
  config.encoder = {.width = 16, .heads = 2, .layers = 2, .max_length = 64, .causal = true};
  config.encoder.attention = Node::string(attention);
  auto model = std::make_shared<LanguageModel>(config, Vocabulary{kWords, kWords}, /*seed=*/5);
  model->to(at::kCUDA);
  model->eval();
  return model;
}

bool writes(const Promises& promises) {
  return promises.decode && promises.future != Future::refused;
}

TEST(DecodingCuda, ReplayedStepsWriteTheSameTexts) {
  const auto prompt =
      at::arange(1, kLanes * 5 + 1).remainder(kWords).view({kLanes, 5}).to(at::kCUDA);
  for (const auto& mechanism : mechanisms()) {
    if (!writes(mechanism.promises(mechanism.resolve({})))) continue;
    SCOPED_TRACE(mechanism.name);
    const auto model = model_of(mechanism.name);
    for (const auto method :
         {DecodingMethod::greedy, DecodingMethod::beam, DecodingMethod::sample}) {
      DecodingConfig config = {.method = method, .max_length = 40};
      const auto random = Random::from_seed(3, 0, at::kCUDA);
      const auto write = [&](bool graphs) {
        config.graphs = graphs;
        return decode(model->continuation(kLanes, random), {prompt}, /*end=*/2, config, random);
      };
      const auto eager = write(false), replayed = write(true);
      EXPECT_NEAR_TENSOR(replayed.tokens, eager.tokens, kExact);
      EXPECT_NEAR_TENSOR(replayed.lengths, eager.lengths, kExact);
      EXPECT_NEAR_TENSOR(replayed.scores, eager.scores, (Tolerance{1e-4, 1e-4}));
    }
  }
}

}  // namespace
}  // namespace longbow
