#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "longbow/core/fields.h"

namespace longbow {

// results.json of a run; one cell of an arena.
struct Result {
  std::string task, mechanism;
  int64_t seed = 0;
  std::string metric = "accuracy";
  bool larger_is_better = true;
  std::optional<double> score = {}, valid_score = {};  // none where it is not finite
  std::string split = "test", chosen_by = "valid";
  int64_t parameters = 0, steps = 0, best_step = 0;
  double tokens_per_second = 0, peak_bytes = 0, seconds = 0;
  bool shared = false;
  std::string status = "ok", reason;
};
template <class V>
void fields(V& v, Result& r) {
  v("mechanism", r.mechanism, "name, or the names of a list");
  v("task", r.task, "what was learnt");
  v("seed", r.seed, "of the run");
  v("metric", r.metric, "what the score is");
  v("larger_is_better", r.larger_is_better, "of two scores");
  v("score", r.score, "on `split`");
  v("valid_score", r.valid_score, "on the validation split, same weights");
  v("split", r.split, "that scored");
  v("chosen_by", r.chosen_by, "split that chose the weights");
  v("parameters", r.parameters, "numbers of the model, frozen ones too");
  v("steps", r.steps, "optimiser steps");
  v("best_step", r.best_step, "step of the weights");
  v("tokens_per_second", r.tokens_per_second, "real tokens per second of training");
  v("peak_bytes", r.peak_bytes, "most memory of a training step above weights and data");
  v("seconds", r.seconds, "of training, without evaluation");
  v("shared", r.shared, "throughput was measured while others used the device");
  v("status", r.status, "ok, FAIL or OOM");
  v("reason", r.reason, "of a failure");
}

// results.json in the folder of a run. UserError where it cannot be read.
Result read_result(const std::string& folder);
void write_result(const Result& result, const std::string& folder);

}  // namespace longbow
