#include "longbow/train/run/throughput.h"

#include <ATen/ATen.h>

#include <chrono>

#include "longbow/core/interruption.h"
#include "longbow/train/run/run_task.h"
#include "longbow/train/step/feed.h"
#include "longbow/train/step/step.h"

namespace longbow {
namespace {

constexpr int64_t kWarm = 20, kTimed = 20;        // steps at least
constexpr double kWarmSeconds = 1, kSeconds = 2;  // where steps are short

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Training steps on fresh batches, and the tokens in them.
class Steps {
 public:
  Steps(const RunConfig& config, at::Device device)
      : config_(config),
        splits_(load_splits(config)),
        task_(make_task(config, splits_, device)),
        feed_(task_->splits().train,
              Sampler(lengths_of(*task_->splits().train), config.train.sampler, config.seed),
              config.train.loader, config.train.resident, device),
        step_(*task_, step_config(config)) {}

  // At least so many steps and so many seconds; tokens per second of them.
  double run(int64_t at_least, double seconds) {
    const double start = seconds_now();
    double tokens = 0;
    for (int64_t i = 0; i < at_least || seconds_now() - start < seconds; ++i) {
      check_interruption();
      std::vector<Batch> batches;
      for (int64_t b = 0; b < config_.train.accumulate; ++b) {
        batches.push_back(feed_.next());
        tokens += static_cast<double>(batches.back().real_tokens);
      }
      step_.run(batches, done_ * config_.train.accumulate, /*learning_rate=*/0);
      ++done_;
    }
    (void)step_.sums().at("loss").item<double>();  // waits for the device
    return tokens / (seconds_now() - start);
  }

 private:
  const RunConfig& config_;
  Splits splits_;
  std::unique_ptr<Task> task_;
  Feed feed_;
  Step step_;
  int64_t done_ = 0;
};

}  // namespace

double measured_throughput(const RunConfig& config, at::Device device) {
  Steps steps(config, device);
  (void)steps.run(kWarm, kWarmSeconds);
  return steps.run(kTimed, kSeconds);
}

}  // namespace longbow
