#include "longbow/train/run/same_run.h"

#include <gtest/gtest.h>

#include "longbow/core/file.h"
#include "longbow/train/run/run_config.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

const Progressed kSaved = {.data = "checksum"};

TEST(SameRun, MayBeLongerAndFaster) {
  const auto file = scratch() + "/config.yaml";
  const auto tree = written(RunConfig{.task = "recall"});
  write_file(file, to_yaml(tree));
  for (const auto* change :
       {"train.max_steps=5", "train.max_epochs=2", "train.learning_rate=1", "train.decay=cosine",
        "train.warmup_steps=7", "train.weight_decay=1", "train.clip=2", "train.evaluate_every=3",
        "train.checkpoint_every=3", "train.threads=0", "train.patience=9", "data.path=elsewhere"}) {
    auto now = tree;
    assign(now, change);
    EXPECT_EQ(error_of([&] { check_same_run(now, file, kSaved, "checksum"); }), "") << change;
  }
}

// Until version 0.1 config.yaml held the options of every data set.
TEST(SameRun, MayHaveBeenStartedByAnOlderVersion) {
  const auto file = scratch() + "/config.yaml";
  const auto tree =
      written(read_run_config(parse_yaml("task: recall\ndata: {recall: {keys: 48}}", "run.yaml")));
  auto old = tree;
  for (const auto* set : {"listops", "match", "count", "needle", "markov", "reverse"})
    old["data"][set] = Node::map({{"train", Node::integer(4)}});
  write_file(file, to_yaml(old));
  EXPECT_EQ(error_of([&] { check_same_run(tree, file, kSaved, "checksum"); }), "");
  EXPECT_EQ(to_yaml(written(read_run_config(load_config(file)))), to_yaml(tree));
}

TEST(SameRun, KeepsWhatItsStateMeans) {
  const auto file = scratch() + "/config.yaml";
  const auto tree = written(RunConfig{.task = "recall"});
  write_file(file, to_yaml(tree));
  for (const auto* change :
       {"seed=9", "model={width: 9}", "train.optimizer=adam", "train.precision=bf16",
        "train.batch_size=3", "train.batch_tokens=3", "train.bucket=3", "train.lengths=[3]",
        "train.shuffle=false", "train.drop_last=true", "train.carry=true", "train.accumulate=2",
        "train.ema=0.9", "train.beta1=0.5", "train.amsgrad=true", "train.label_smoothing=0.1",
        "train.normalise=samples", "train.sgd.momentum=0.5", "train.evaluate_samples=4"}) {
    auto now = tree;
    assign(now, change);
    auto key = std::string(change).substr(0, std::string(change).find('='));
    key = key.substr(0, key.find('.', key.find('.') + 1));
    const auto message = error_of([&] { check_same_run(now, file, kSaved, "checksum"); });
    EXPECT_TRUE(message.starts_with(file + ":")) << message;
    EXPECT_NE(message.find(": " + key +
                           " is not that of the run to resume; take the run's own "
                           "config, or choose another --out"),
              std::string::npos)
        << change << ": " << message;
  }
  EXPECT_EQ(error_of([&] { check_same_run(tree, file, kSaved, "other"); }),
            file +
                ": the samples are not those of the run to resume; name the folder that holds "
                "them with --set data.path=DIR");
}

}  // namespace
}  // namespace longbow
