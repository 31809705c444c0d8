#include "longbow/train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/nn/meter.h"
#include "longbow/nn/safetensors.h"
#include "longbow/train/checkpoint.h"
#include "longbow/train/feed.h"
#include "longbow/train/interruption.h"
#include "longbow/train/readback.h"
#include "longbow/train/run_log.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string checksum_of(const Splits& splits) {
  std::string all;
  for (const auto* split : {"train", "valid", "test"}) all += splits.checksums.at(split);
  return sha256(all);
}

// A resumed run may be longer, use other threads or find its data in another folder, but it must
// learn the same thing with the same model.
void check_same_run(Node now, const std::string& file, const Progressed& saved,
                    const std::string& data) {
  auto before = load_config(file);
  if (!saved.data.empty())
    for (auto* tree : {&now, &before}) (*tree)["data"]["path"] = Node::string("");
  for (const auto* key : {"task", "objective", "data", "model", "start", "pretrain", "seed"})
    if (before.find(key) && to_yaml(*now.find(key)) != to_yaml(*before.find(key)))
      throw UserError(before.find(key)->place,
                      std::string(key) + " is not that of the run to resume",
                      "take the run's own config, or choose another --out");
  if (!saved.data.empty() && saved.data != data)
    throw UserError(Place{file, 0}, "the samples are not those of the run to resume",
                    "name the folder that holds them with --set data.path=DIR");
}

// Runs while the trainer trains, and stands still while it evaluates or saves.
class Stopwatch {
 public:
  explicit Stopwatch(double seconds) : before_(seconds) {}
  double seconds() const { return before_ + (running_ ? seconds_since(start_) : 0); }
  void pause() {
    before_ = seconds();
    running_ = false;
  }
  void go_on() {
    start_ = Clock::now();
    running_ = true;
  }

 private:
  double before_;
  Clock::time_point start_ = {};
  bool running_ = false;
};

class Trainer {
 public:
  Trainer(const RunConfig& config, const TrainOptions& options, const Inheritance& inheritance)
      : config_(config),
        options_(options),
        task_(make_task(config, options.device)),
        feed_(task_->splits().train,
              Sampler(lengths_of(*task_->splits().train), config.train.sampler, config.seed),
              config.train.loader, config.train.resident, options.device),
        step_(*task_, step_config(config)),
        readback_(options.device),
        total_(total_steps(config.train, feed_.batches_per_epoch())) {
    prepare_folder();
    if (now_.step == 0 && !inheritance.weights.empty()) take_over(inheritance);
  }

  Result run() {
    const auto& train = config_.train;
    InterruptionGuard interruption;
    info(fmt::format("{}: {} parameters, {} training samples{}, {}", options_.label,
                     human_count(static_cast<double>(task_->parameter_count())),
                     task_->splits().train->size(), feed_.resident() ? " on the GPU" : "",
                     options_.out));
    Progress bar(options_.label, total_, options_.progress);
    Stopwatch watch(now_.seconds);
    watch.go_on();
    bool stopped = false;
    while (now_.step < total_ && !stopped) {
      step(bar, watch);
      const bool last = now_.step == total_;
      const bool out_of_time = train.max_seconds > 0 && now_.seconds >= train.max_seconds;
      const bool evaluates = last || out_of_time || every(train.evaluate_every);
      const int signal = interruption.signal();  // one that comes later waits for the next step
      const bool saves = last || out_of_time || signal || every(train.checkpoint_every);
      if (!evaluates && !saves) continue;
      readback_.flush();
      watch.pause();
      now_.seconds = watch.seconds();
      if (evaluates) validate();
      stopped = out_of_time || (train.patience > 0 && now_.stale >= train.patience);
      const bool is_best = train.keep_best && evaluates && now_.best_step == now_.step;
      if (saves || stopped || is_best) save();
      if (signal && !last && !stopped) {
        bar.finish();
        throw Interrupted(signal);
      }
      watch.go_on();
    }
    bar.finish();
    return conclude();
  }

 private:
  bool every(int64_t steps) const { return steps > 0 && now_.step % steps == 0; }
  std::string in_run(const char* name) const { return (fs::path(options_.out) / name).string(); }

  void prepare_folder() {
    fs::create_directories(options_.out);
    const auto checkpoint = options_.resume ? newest_checkpoint(options_.out) : std::nullopt;
    if (!options_.resume && fs::exists(in_run("metrics.jsonl")))
      throw UserError(Place{options_.out, 0}, "holds a run already",
                      "continue it with --resume, or choose another --out");
    RunConfig resolved = config_;
    resolved.model = task_->model_config();
    const auto tree = written(resolved);
    const auto data = checksum_of(task_->splits());
    if (checkpoint) check_same_run(tree, in_run("config.yaml"), checkpoint->progressed, data);
    write_file(in_run("config.yaml"), to_yaml(tree));
    Node model = resolved.model;
    for (const auto& [key, value] : task_->model_card().entries) model[key] = value;
    write_file(in_run("config.json"), to_json(model, 2) + "\n");
    if (checkpoint) {
      now_ = checkpoint->progressed;
      step_.weights().load(checkpoint->weights, options_.out);
      step_.load(checkpoint->optimizer);
      feed_.seek(now_.position);
    }
    now_.data = data;
    log_ = std::make_unique<RunLog>(options_.out, now_.step, config_.train.events);
    log_->text("config", "```yaml\n" + to_yaml(tree) + "```");
  }

  void take_over(const Inheritance& from) {
    auto weights = step_.weights().saved();
    info(options_.label + ": " + move_weights(from.weights, weights, from.how).text());
    step_.begin_with(weights, options_.out);
  }

  void step(Progress& bar, const Stopwatch& watch) {
    const auto& train = config_.train;
    std::vector<Batch> batches;
    int64_t padded = 0;
    for (int64_t i = 0; i < train.accumulate; ++i) {
      batches.push_back(feed_.next());
      padded = std::max(padded, batches.back().tokens.numel());
      now_.tokens += static_cast<double>(batches.back().real_tokens);
    }
    const double rate =
        train.optimizer.learning_rate *
        schedule_factor(train.schedule,
                        {.step = now_.step + 1, .total = total_, .epoch = now_.position.epoch});
    const auto work = [&] { step_.run(batches, now_.step * train.accumulate, rate); };
    if (padded > largest_) {  // counting costs a little time, so only the largest batches are
      largest_ = padded;
      now_.peak_bytes =
          std::max(now_.peak_bytes, static_cast<double>(measure(work, options_.device).peak_bytes));
    } else {
      work();
    }
    if (const auto found = step_.anomaly(); !found.empty())
      throw std::runtime_error(fmt::format("step {}: {}", now_.step + 1, found));
    for (const auto& module : task_->model().modules())
      if (auto* part = dynamic_cast<Part*>(module.get())) part->after_step(now_.step);
    now_.position = batches.back().after;
    ++now_.step;
    now_.seconds = watch.seconds();
    report(bar, rate);
  }

  void report(Progress& bar, double rate) {
    if (every(config_.train.log_every) || now_.step == total_ || now_.step == 1)
      readback_.send(step_.sums(), [this, rate, at = now_](const Readback::Numbers& numbers) {
        log(numbers, rate, at);
      });
    else
      readback_.poll();
    bar.update(now_.step, {{"loss", fmt::format("{:.4f}", loss_)},
                           {"tok/s", human_count(now_.tokens / now_.seconds)},
                           {"lr", fmt::format("{:.2e}", rate)},
                           {"mem", human_bytes(now_.peak_bytes)}});
  }

  // A line of metrics.jsonl for the step whose numbers have arrived.
  void log(const Readback::Numbers& numbers, double rate, const Progressed& at) {
    Tensors sums;
    for (const auto& [name, value] : numbers) sums[name] = at::full({}, value, at::kDouble);
    loss_ = mean_of(sums, "loss", "weight");
    if (!std::isfinite(loss_))
      throw std::runtime_error(
          fmt::format("the loss is {} at step {}; lower train.learning_rate", loss_, at.step));
    std::vector<std::pair<std::string, double>> line = {{"loss", loss_}};
    for (const auto& metric : task_->metrics(sums))
      if (metric.name != "loss") line.emplace_back(metric.name, metric.value);
    line.insert(line.end(), {{"learning_rate", rate},
                             {"gradient_norm", numbers.at("gradient_norm")},
                             {"tokens_per_second", at.tokens / at.seconds},
                             {"seconds", at.seconds}});
    log_->write("train", at.step, line);
  }

  void write_metrics(const char* split, const Evaluation& evaluation) {
    std::vector<std::pair<std::string, double>> line;
    for (const auto& metric : evaluation.metrics) line.emplace_back(metric.name, metric.value);
    log_->write(split, now_.step, line);
  }

  void validate() {
    const auto& train = config_.train;
    const Averaged averaged(step_);
    const auto found =
        evaluate(*task_, *task_->splits().valid, train.sampler, train.evaluate_samples);
    write_metrics("valid", found);
    const auto& first = found.metrics.front();
    const auto gain = [&](double before) {
      return first.larger_is_better ? first.value - before : before - first.value;
    };
    const bool is_first = now_.best_step == 0;
    const bool counts = is_first || gain(now_.mark) > train.min_delta;
    now_.stale = counts ? 0 : now_.stale + 1;
    if (counts) now_.mark = first.value;
    if (!is_first && gain(now_.best) <= 0) return;
    now_.best = first.value;
    now_.best_step = now_.step;
    save_safetensors(in_run("best.safetensors"), step_.weights().saved(),
                     {{"format", "pt"}, {"step", std::to_string(now_.step)}});
  }

  void save() {
    save_checkpoint(options_.out, now_, step_.weights().saved(), step_.state(),
                    {.newest = config_.train.keep_checkpoints,
                     .every = config_.train.keep_every,
                     .best = config_.train.keep_best ? now_.best_step : 0});
  }

  Result conclude() {
    if (fs::exists(in_run("best.safetensors")))
      fs::rename(in_run("best.safetensors"), in_run("model.safetensors"));
    load_weights(task_->model(), load_safetensors(in_run("model.safetensors")).tensors,
                 options_.out);
    const auto& splits = task_->splits();
    const auto valid = evaluate(*task_, *splits.valid, config_.train.sampler);
    const auto test = evaluate(*task_, *splits.test, config_.train.sampler);
    write_metrics("test", test);
    Result result = {.task = config_.task,
                     .mechanism = mechanism_label(config_.model),
                     .seed = static_cast<int64_t>(config_.seed),
                     .metric = test.metrics.front().name,
                     .larger_is_better = test.metrics.front().larger_is_better,
                     .score = test.metrics.front().value,
                     .valid_score = valid.metrics.front().value,
                     .parameters = task_->parameter_count(),
                     .steps = now_.step,
                     .best_step = now_.best_step,
                     .tokens_per_second = now_.seconds > 0 ? now_.tokens / now_.seconds : 0,
                     .peak_bytes = now_.peak_bytes,
                     .seconds = now_.seconds,
                     .reason = ""};
    write_file(in_run("results.json"), to_json(written(result), 2) + "\n");
    return result;
  }

  RunConfig config_;
  TrainOptions options_;
  std::unique_ptr<Task> task_;
  Feed feed_;
  Step step_;
  Readback readback_;
  int64_t total_;  // steps
  std::unique_ptr<RunLog> log_;
  Progressed now_;
  int64_t largest_ = 0;
  double loss_ = 0;  // the last that arrived
};

}  // namespace

Result train(const RunConfig& config, const TrainOptions& options) {
  auto inheritance = pretrained(config, options);
  if (inheritance.weights.empty()) inheritance = started(config, options);
  return Trainer(config, options, inheritance).run();
}

}  // namespace longbow
