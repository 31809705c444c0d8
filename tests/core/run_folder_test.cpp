#include "longbow/core/run_folder.h"

#include <gtest/gtest.h>

#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/core/folder.h"

namespace longbow {
namespace {

std::string empty_folder(const std::string& name) {
  const auto path = testing::TempDir() + "run_folder_" + name;
  std::filesystem::remove_all(path);
  make_folder(path);
  return path;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(RunFolder, NamesTheFilesOfARun) {
  const RunFolder run("runs/topic");
  EXPECT_EQ(run.path(), "runs/topic");
  EXPECT_EQ(run.config(), "runs/topic/config.yaml");
  EXPECT_EQ(run.card(), "runs/topic/config.json");
  EXPECT_EQ(run.vocabulary(), "runs/topic/vocabulary.json");
  EXPECT_EQ(run.request(), "runs/topic/request.yaml");
  EXPECT_EQ(run.metrics(), "runs/topic/metrics.jsonl");
  EXPECT_EQ(run.results(), "runs/topic/results.json");
  EXPECT_EQ(run.best(), "runs/topic/best.safetensors");
  EXPECT_EQ(run.weights(), "runs/topic/model.safetensors");
  EXPECT_EQ(run.checkpoint(20), run.checkpoints() + "/20");
  EXPECT_EQ(run.draft(), "runs/topic/checkpoints/draft");
  EXPECT_EQ(run.pretraining().config(), "runs/topic/pretrain/config.yaml");
}

TEST(RunFolder, AFolderIsARunWhenItHasAConfigAndFinishedWhenItHasWeights) {
  const RunFolder run(empty_folder("finished"));
  EXPECT_EQ(refusal([&] { run.check_run(); }),
            run.path() +
                ": is not a run folder: config.yaml is missing; `longbow train` prints "
                "the folder it fills");
  EXPECT_FALSE(run.is_run());
  write_file(run.config(), "task: listops\n");
  EXPECT_TRUE(run.is_run());
  EXPECT_EQ(refusal([&] { run.check_run(); }), "");
  EXPECT_EQ(refusal([&] { run.check_weights(); }),
            run.path() +
                ": holds no finished run: model.safetensors is missing; finish it with "
                "`longbow train --resume`");
  write_file(run.weights(), "");
  EXPECT_TRUE(run.has_weights());
  EXPECT_EQ(refusal([&] { run.check_weights(); }), "");
}

}  // namespace
}  // namespace longbow
