#include "longbow/train/run/throughput.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>

#include "longbow/core/interruption.h"
#include "longbow/core/seed.h"
#include "longbow/data/feed/sampler.h"
#include "longbow/tensors/meter.h"
#include "longbow/tensors/profile.h"
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

// Training steps on fresh batches; the rate is zero, so that no weight runs away.
class Steps {
 public:
  Steps(const RunConfig& config, const Splits& splits, at::Device device)
      : config_(config),
        task_(make_task(config, splits, device)),
        feed_(task_->splits().train, training_order(config, task_->splits()), config.train.loader,
              config.train.resident, device),
        step_(*task_, step_config(config)) {}

  // Real tokens of the step, which may still be under way.
  double run() {
    check_interruption();
    std::vector<Batch> batches;
    double tokens = 0;
    for (int64_t b = 0; b < config_.train.accumulate; ++b) {
      batches.push_back(feed_.next());
      tokens += static_cast<double>(batches.back().real_tokens);
    }
    step_.run(batches, done_++ * config_.train.accumulate, /*learning_rate=*/0);
    return tokens;
  }
  void wait() const { (void)step_.sums().at("loss").item<double>(); }

 private:
  const RunConfig& config_;
  std::unique_ptr<Task> task_;
  Feed feed_;
  Step step_;
  int64_t done_ = 0;
};

// Tokens per second of at least so many steps and so many seconds.
double rate_of(Steps& steps, int64_t at_least, double seconds) {
  const double start = seconds_now();
  double tokens = 0;
  for (int64_t i = 0; i < at_least || seconds_now() - start < seconds; ++i) tokens += steps.run();
  steps.wait();
  return tokens / (seconds_now() - start);
}

// Random bytes in two classes: texts, or the pixels of square images.
Splits random_bytes(int64_t samples, int64_t length) {
  constexpr int64_t kVocabulary = 257, kClasses = 2;
  auto data = std::make_shared<MemoryDataset>(MemoryDataset::Targets::one_class);
  for (int64_t i = 0; i < samples; ++i) {
    auto stream = Stream(1, "bench").at(static_cast<uint64_t>(i));
    std::vector<int32_t> tokens(static_cast<size_t>(length));
    for (auto& token : tokens) token = 1 + static_cast<int32_t>(stream.below(kVocabulary - 1));
    const auto answer = static_cast<int32_t>(i % kClasses);
    data->add(tokens, std::span(&answer, 1));
  }
  Splits splits = {.vocabulary = kVocabulary, .classes = kClasses};
  set_splits(splits, data, data, data);
  return splits;
}

// The same run on samples of one length each.
RunConfig with_one_length(RunConfig config, int64_t max_length) {
  config.model["max_length"] = Node::integer(max_length);
  config.train.sampler.batch_tokens = 0;
  config.train.sampler.bucket = 1;
  config.train.sampler.lengths.clear();
  return config;
}

}  // namespace

double measured_throughput(const RunConfig& config, at::Device device) {
  Steps steps(config, load_splits(config), device);
  (void)rate_of(steps, kWarm, kWarmSeconds);
  return rate_of(steps, kTimed, kSeconds);
}

StepCost measured_step(const RunConfig& config, int64_t length, int64_t repetitions,
                       at::Device device, bool profiled) {
  TORCH_CHECK(config.objective == "classification", "a model is timed as a classifier");
  const auto timed = with_one_length(config, length);
  auto splits = random_bytes(timed.train.sampler.batch_size, length);
  if (const auto* input = timed.model.find("input"); input && input->text == "pixels") {
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
    if (side * side == length) splits.image = {side, side};
  }
  Steps steps(timed, splits, device);
  StepCost cost;
  cost.peak_bytes = static_cast<double>(measure([&] { steps.run(); }, device).peak_bytes);
  for (int64_t i = 0; i < 3; ++i) steps.run();  // a GPU captures the step in the first of them
  steps.wait();
  for (int64_t i = 0; i < repetitions; ++i) {
    const double start = seconds_now();
    steps.run();
    steps.wait();
    cost.seconds.push_back(seconds_now() - start);
  }
  if (profiled) cost.profile = profile([&] { steps.run(); }, device).text(24);
  return cost;
}

StepCost measured_decoding(const RunConfig& config, int64_t length, int64_t repetitions,
                           at::Device device, bool graphs, bool profiled) {
  TORCH_CHECK(config.objective == "causal_lm", "a model that writes is timed as a causal_lm");
  // The difference is what the tokens between cost, without the beginning and without a capture.
  constexpr int64_t kFew = 8, kMany = 72;
  const auto timed = with_one_length(config, length + kMany);
  const auto splits = random_bytes(timed.train.sampler.batch_size, length);
  const auto task = make_task(timed, splits, device);
  task->model().eval();
  Sampler plans(lengths_of(*splits.train), timed.train.sampler, config.seed);
  const auto batch = collate(*splits.train, plans.next()).to(device);
  const auto random = Random::from_seed(config.seed, 0, device);
  auto how = task->decoding();
  how.graphs = how.graphs || graphs;
  const auto write = [&](int64_t tokens) {
    check_interruption();
    how.max_length = tokens;
    const double start = seconds_now();
    (void)task->write(batch, how, random).lengths.cpu();
    return seconds_now() - start;
  };
  StepCost cost;
  cost.peak_bytes = static_cast<double>(measure([&] { write(kFew); }, device).peak_bytes);
  write(kMany);
  for (int64_t i = 0; i < repetitions; ++i) {
    const double few = write(kFew);
    cost.seconds.push_back((write(kMany) - few) / (kMany - kFew));
  }
  if (profiled) cost.profile = profile([&] { write(kMany); }, device).text(24);
  return cost;
}

}  // namespace longbow
