#include "longbow/train/run/train.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "tests/support/tensor.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

RunConfig tiny() {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 16, valid: 8, test: 8, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 8, layers: 1}", "model");
  config.train.max_steps = 2;
  config.train.sampler = {.batch_size = 8, .bucket = 3};
  config.train.loader.threads = 0;
  config.train.events = false;
  return config;
}

// A config of somebody, the folder of a model, a tokenizer: whatever the flags say.
TEST(Train, ReplacesNoFileThatIsNotOfItsRun) {
  for (const auto* name : {"config.yaml", "config.json", "vocabulary.json", "tokenizer.json",
                           "results.json", "best.safetensors", "model.safetensors"})
    for (const auto* objective : {"", "masked_lm"})
      for (const bool resume : {false, true}) {
        SCOPED_TRACE(std::string(name) + " " + objective);
        const auto folder = scratch(), file = folder + "/" + name;
        write_file(file, "# mine");
        auto config = tiny();
        config.pretrain.objective = objective;
        EXPECT_EQ(error_of([&] { run(config, folder, resume); }),
                  file +
                      ": is there already, and is not of a run that could go on; choose another "
                      "--out");
        EXPECT_EQ(read_file(file), "# mine");
        EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
      }
}

TEST(Train, WritesBesideFilesOfOtherNames) {
  const auto folder = scratch();
  write_file(folder + "/run.yaml", "# mine");
  EXPECT_EQ(run(tiny(), folder).steps, 2);
  EXPECT_EQ(read_file(folder + "/run.yaml"), "# mine");
}

// Killed while it wrote the first files of its folder, in this order.
TEST(Train, ARunThatWasKilledBeforeItsFirstStepBeginsAgain) {
  const auto folder = scratch(), whole = folder + "/whole";
  run(tiny(), whole);
  const std::vector<std::string> order = {"checkpoints", "config.yaml", "config.json",
                                          "vocabulary.json"};
  for (size_t written = 1; written <= order.size(); ++written) {
    const auto killed = folder + "/killed" + std::to_string(written);
    fs::create_directories(killed + "/checkpoints");
    for (size_t i = 1; i < written; ++i)
      fs::copy_file(fs::path(whole) / order[i], fs::path(killed) / order[i]);
    EXPECT_EQ(error_of([&] { run(tiny(), killed); }),
              killed + ": holds a run already; continue it with --resume, or choose another --out");
    EXPECT_EQ(run(tiny(), killed, true).steps, 2);
    EXPECT_EQ(read_file(killed + "/model.safetensors"), read_file(whole + "/model.safetensors"));
  }
}

// A model that was copied alone has no checkpoints: to resume it would be to train another one.
TEST(Train, AModelThatWasCopiedAloneIsNotTrainedOver) {
  const auto folder = scratch(), copy = folder + "/copy";
  run(tiny(), folder + "/run");
  fs::create_directories(copy);
  for (const auto* name : {"config.yaml", "vocabulary.json", "model.safetensors"})
    fs::copy_file(folder + "/run/" + name, copy + "/" + name);
  for (const bool resume : {false, true})
    EXPECT_EQ(error_of([&] { run(tiny(), copy, resume); }),
              copy +
                  "/config.yaml: is there already, and is not of a run that could go on; choose "
                  "another --out");
}

TEST(Train, WhatFailsBeforeItsDataIsReadLeavesNothingBehind) {
  const auto folder = scratch() + "/run";
  auto config = tiny();
  config.pretrain.objective = "masked_lm";
  config.data.path = "nowhere";
  EXPECT_NE(error_of([&] { run(config, folder); }), "");
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace longbow
