#include "longbow/train/run/same_run.h"

#include <array>

#include "longbow/data/readers/source.h"

namespace longbow {
namespace {

constexpr std::array kParts = {"task", "objective", "data", "model", "start", "pretrain", "seed"};

// Of `train`: what a checkpoint's state and the position in the data depend on, what is learnt, and
// what scores are compared on.
constexpr std::array kTraining = {
    "accumulate",    "normalise",       "label_smoothing", "precision",      "batch_size",
    "batch_tokens",  "bucket",          "lengths",         "shuffle",        "drop_last",
    "carry",         "optimizer",       "beta1",           "beta2",          "amsgrad",
    "sgd",           "adafactor",       "rmsprop",         "momentum_decay", "ema",
    "ema_corrected", "evaluate_samples"};

void check_same(const Node& now, const Node& before, const char* key, const std::string& prefix) {
  const auto *own = now.find(key), *kept = before.find(key);
  if (!own || !kept || to_yaml(*own) == to_yaml(*kept)) return;
  throw UserError(kept->place, prefix + key + " is not that of the run to resume",
                  "take the run's own config, or choose another --out");
}

}  // namespace

void check_same_run(Node now, const std::string& file, const Progressed& saved,
                    const std::string& data) {
  auto before = load_config(file);
  drop_other_sets(before["data"]);
  if (!saved.data.empty())
    for (auto* tree : {&now, &before}) (*tree)["data"]["path"] = Node::string("");
  for (const auto* key : kParts) check_same(now, before, key, "");
  if (const auto* own = now.find("train"), *kept = before.find("train"); own && kept)
    for (const auto* key : kTraining) check_same(*own, *kept, key, "train.");
  if (!saved.data.empty() && saved.data != data)
    throw UserError(Place{file, 0}, "the samples are not those of the run to resume",
                    "name the folder that holds them with --set data.path=DIR");
}

}  // namespace longbow
