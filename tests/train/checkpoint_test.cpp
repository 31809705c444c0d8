#include "longbow/train/run/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>

#include "longbow/core/console.h"
#include "longbow/core/file.h"
#include "longbow/nn/contract/site.h"
#include "longbow/tensors/safetensors.h"
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
                                .peak_bytes = 77,
                                .evaluated_step = 6};
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
  EXPECT_EQ(found->progressed.evaluated_step, 6);
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

// What is said on the way.
std::string warnings(const std::function<void()>& act) {
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  act();
  set_console({});
  return written;
}

TEST(Checkpoint, ADamagedOneIsNamedAndPassedOver) {
  const auto run = scratch();
  for (const auto* name : {"model.safetensors", "optimizer.safetensors", "trainer.json"})
    for (const bool cut : {false, true}) {
      for (int64_t step : {1, 2})
        save_checkpoint(run, {.step = step}, kWeights, kMoments, {.newest = 2});
      const auto file = run + "/checkpoints/2/" + name;
      auto bytes = read_file(file);
      if (cut)
        bytes.resize(bytes.size() / 2);
      else
        bytes[bytes.size() - 4] ^= 1;  // the last number, or the last quote
      write_file(file, bytes);
      int64_t step = 0;
      const auto said = warnings([&] { step = newest_checkpoint(run)->progressed.step; });
      EXPECT_EQ(step, 1) << name;
      EXPECT_TRUE(said.starts_with("warning: " + file)) << said;
      EXPECT_NE(said.find("; the checkpoint of step 2 is damaged and passed over\n"),
                std::string::npos)
          << said;
    }
  fs::remove(run + "/checkpoints/1/model.safetensors");
  warnings([&] {
    EXPECT_EQ(error_of([&] { newest_checkpoint(run); }),
              run + "/checkpoints: every checkpoint is damaged; train again with another --out");
  });
}

TEST(Checkpoint, NamesThatAreNoStepAreIgnored) {
  const auto run = scratch();
  for (const auto* name : {"99999999999999999999999", "007", "9a", "-3", " 8"})
    fs::create_directories(fs::path(run) / "checkpoints" / name);
  EXPECT_FALSE(has_checkpoint(run));
  save_checkpoint(run, {.step = 3}, kWeights, kMoments, {.newest = 1});
  EXPECT_EQ(newest_checkpoint(run)->progressed.step, 3);
}

TEST(Checkpoint, BringsItsBestWeightsBack) {
  const auto run = scratch(), best = run + "/best.safetensors";
  const auto save = [&](int64_t step, int64_t best_step) {
    const auto bytes = "best of " + std::to_string(best_step);
    write_file(best, bytes);
    save_checkpoint(run, {.step = step, .best_step = best_step, .best_sha256 = sha256(bytes)},
                    kWeights, kMoments, {.newest = 9});
  };
  save(4, 3);
  save(8, 7);
  write_file(best, "of a process that is dead");
  const auto newest = newest_checkpoint(run)->progressed;
  EXPECT_TRUE(return_to(run, newest, {.newest = 9}));
  EXPECT_EQ(read_file(best), "best of 7");
  fs::remove(run + "/checkpoints/8/best.safetensors");
  std::optional<Checkpoint> earlier;
  warnings([&] { earlier = newest_checkpoint(run); });
  EXPECT_EQ(earlier->progressed.step, 4);
  EXPECT_TRUE(return_to(run, earlier->progressed, {.newest = 9}));
  EXPECT_EQ(read_file(best), "best of 3");
  EXPECT_FALSE(fs::exists(run + "/checkpoints/8")) << "of a future that will not be";
  EXPECT_TRUE(return_to(run, {.step = 4}, {.newest = 9}));
  EXPECT_FALSE(fs::exists(best)) << "there is none before the first evaluation";
}

// Checkpoints of longbow 0.1.0 have no checksums and no best weights of their own.
TEST(Checkpoint, AnOlderOneTakesTheBestWeightsOfTheRightStepOnly) {
  const auto run = scratch(), best = run + "/best.safetensors";
  save_safetensors(best, kWeights, {{"step", "3"}});
  EXPECT_TRUE(return_to(run, {.step = 4, .best_step = 3}, {}));
  EXPECT_TRUE(fs::exists(best));
  EXPECT_FALSE(return_to(run, {.step = 4, .best_step = 2}, {}));
  EXPECT_FALSE(fs::exists(best));
  save_safetensors(run + "/model.safetensors", kWeights, {{"step", "2"}});
  EXPECT_TRUE(return_to(run, {.step = 4, .best_step = 2}, {}));
  EXPECT_TRUE(fs::exists(best));
}

TEST(Checkpoint, IsAPlaceWhereATrainingCanBe) {
  const auto refused = [](const std::string& text) {
    return error_of([&] { parse_trainer(text, "trainer.json"); });
  };
  EXPECT_EQ(refused(R"({"step": -1})"), "trainer.json:1: step is -1, out of range; it may be >= 0");
  EXPECT_EQ(refused(R"({"position": {"index": -3}})"),
            "trainer.json:1: position.index is -3, out of range; it may be >= 0");
  EXPECT_EQ(refused(R"({"plateau": {"drops": -1}})"),
            "trainer.json:1: plateau.drops is -1, out of range; it may be >= 0");
  EXPECT_EQ(refused(R"({"step": 9223372036854775808})"),
            "trainer.json:1: step is '9223372036854775808', which does not fit 64 bits");
}

}  // namespace
}  // namespace longbow
