#include "longbow/train/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "longbow/nn/site.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

const Progressed kProgressed = {.step = 7,
                                .position = {.epoch = 2, .index = 3},
                                .best = 0.625,
                                .best_step = 4,
                                .stale = 1,
                                .mark = 0.5,
                                .seconds = 1.5,
                                .tokens = 12345,
                                .peak_bytes = 77};
const Tensors kWeights = {{"a", at::arange(6, at::kFloat).view({2, 3})}};
const Tensors kMoments = {{"a.mean", at::full({2, 3}, 0.1, at::kFloat)}};

TEST(Checkpoint, ComesBackAsItWasSaved) {
  const auto run = scratch();
  save_checkpoint(run, kProgressed, kWeights, kMoments, {.newest = 2});
  const auto found = newest_checkpoint(run);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->progressed.step, 7);
  EXPECT_EQ(found->progressed.position, (SamplerPosition{2, 3}));
  EXPECT_EQ(found->progressed.best, 0.625);
  EXPECT_EQ(found->progressed.best_step, 4);
  EXPECT_EQ(found->progressed.stale, 1);
  EXPECT_EQ(found->progressed.mark, 0.5);
  EXPECT_EQ(found->progressed.seconds, 1.5);
  EXPECT_EQ(found->progressed.tokens, 12345);
  EXPECT_EQ(found->progressed.peak_bytes, 77);
  EXPECT_NEAR_TENSOR(found->weights.at("a"), kWeights.at("a"), kExact);
  EXPECT_NEAR_TENSOR(found->optimizer.at("a.mean"), kMoments.at("a.mean"), kExact);
}

TEST(Checkpoint, TheNewestByNumberIsTaken) {
  const auto run = scratch();
  for (int64_t step : {9, 10, 8})
    save_checkpoint(run, {.step = step}, kWeights, kMoments, {.newest = 5});
  EXPECT_EQ(newest_checkpoint(run)->progressed.step, 10);
}

TEST(Checkpoint, OnlyTheNewestAreKept) {
  const auto run = scratch();
  for (int64_t step : {8, 9, 10, 11})
    save_checkpoint(run, {.step = step}, kWeights, kMoments, {.newest = 2});
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(fs::path(run) / "checkpoints"))
    left.push_back(entry.path().filename().string());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"10", "11"}));
}

TEST(Checkpoint, TheBestAndEverySoManyStayToo) {
  const auto run = scratch();
  for (int64_t step = 1; step <= 12; ++step)
    save_checkpoint(run, {.step = step}, kWeights, kMoments,
                    {.newest = 1, .every = 5, .best = std::min<int64_t>(step, 7)});
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(fs::path(run) / "checkpoints"))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"5", "7", "10", "12"}));
}

TEST(Checkpoint, ADraftThatWasNeverFinishedIsNone) {
  const auto run = scratch();
  EXPECT_FALSE(newest_checkpoint(run));
  fs::create_directories(fs::path(run) / "checkpoints" / "draft");
  EXPECT_FALSE(newest_checkpoint(run));
  save_checkpoint(run, {.step = 3}, kWeights, kMoments, {.newest = 1});
  EXPECT_EQ(newest_checkpoint(run)->progressed.step, 3);
  EXPECT_FALSE(fs::exists(fs::path(run) / "checkpoints" / "draft"));
}

class Pair : public Part {
 public:
  Pair() {
    parameter("a", at::zeros({2, 3}));
    register_buffer("b", at::zeros({4}));
  }
};

TEST(Weights, AreParametersAndBuffersByName) {
  Pair model;
  const auto weights = weights_of(model);
  EXPECT_EQ(weights.size(), 2u);
  EXPECT_FALSE(weights.at("a").requires_grad());
  load_weights(model, {{"a", at::ones({2, 3})}, {"b", at::full({4}, 2.0)}}, "file");
  EXPECT_NEAR_TENSOR(model.named_parameters()["a"], at::ones({2, 3}), kExact);
  EXPECT_NEAR_TENSOR(model.named_buffers()["b"], at::full({4}, 2.0), kExact);
}

TEST(Weights, ThatDoNotFitAreListed) {
  Pair model;
  EXPECT_EQ(error_of([&] {
              load_weights(model, {{"a", at::ones({3, 2})}, {"c", at::ones({1})}}, "m.safetensors");
            }),
            "m.safetensors: weights do not fit the model: a is [3, 2] instead of [2, 3], missing "
            "b, unexpected c");
  EXPECT_NEAR_TENSOR(model.named_parameters()["a"], at::zeros({2, 3}), kExact);
}

}  // namespace
}  // namespace longbow
