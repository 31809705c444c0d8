#include "longbow/train/run/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/core/interruption.h"
#include "longbow/core/run_folder.h"
#include "longbow/data/samples/saved_facts.h"
#include "longbow/tensors/meter.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/evaluate.h"
#include "longbow/train/run/run_log.h"
#include "longbow/train/run/run_task.h"
#include "longbow/train/run/same_run.h"
#include "longbow/train/run/unknown_tokens.h"
#include "longbow/train/step/feed.h"
#include "longbow/train/step/readback.h"

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

// config.json: the model, and special ids by the names that Hugging Face's tools expect.
Node card_of(const Task& task) {
  Node card = task.model_config();
  for (const auto& [key, value] : task.model_card().entries) card[key] = value;
  const auto texts = task.texts();
  card["pad_token_id"] = Node::integer(0);
  for (const auto& [key, id] : {std::pair("bos_token_id", texts.begin),
                                {"eos_token_id", texts.end},
                                {"sep_token_id", task.splits().separator},
                                {"mask_token_id", texts.hidden}})
    if (id > 0) card[key] = Node::integer(id);
  return card;
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
        folder_(options.out),
        splits_(load_splits(config)),
        task_(make_task(config, splits_, options.device)),
        feed_(task_->splits().train, training_order(config, task_->splits()), config.train.loader,
              config.train.resident, options.device),
        step_(*task_, step_config(config)),
        readback_(options.device),
        total_(total_steps(config.train, feed_.batches_per_epoch())) {
    prepare_folder();
    if (now_.step == 0 && !inheritance.weights.empty()) take_over(inheritance);
  }

  Result run() {
    if (config_.pretrain.objective.empty()) warn_of_unknown_tokens(splits_);
    info(fmt::format("{}: {} parameters, {} training samples{}, {}", options_.label,
                     human_count(static_cast<double>(task_->parameter_count())),
                     task_->splits().train->size(), feed_.resident() ? " on the GPU" : "",
                     options_.out));
    Progress bar(options_.label, total_, options_.progress, {.after = options_.after});
    Stopwatch watch(now_.seconds);
    try {
      bool over = owes_evaluation() ? settle(watch) : is_over();
      watch.go_on();
      while (!over) {
        step(bar, watch);
        over = settle(watch);
      }
    } catch (const Interrupted&) {
      bar.finish();
      readback_.flush();
      if (now_.step > 0) save();
      throw;
    }
    bar.finish();
    return conclude();
  }

 private:
  bool every(int64_t steps) const { return steps > 0 && now_.step % steps == 0; }

  // Of the seconds that training may take; 0 where there is no limit.
  double time_fraction() const {
    const double most = config_.train.max_seconds;
    return most > 0 ? now_.seconds / most : 0;
  }
  bool out_of_time() const { return time_fraction() >= 1; }
  bool is_over() const {
    const auto patience = config_.train.patience;
    return now_.step >= total_ || out_of_time() || (patience > 0 && now_.stale >= patience);
  }
  // Interrupted before it, or a resume has put the end where the run already is.
  bool owes_evaluation() const {
    return now_.unevaluated || (is_over() && now_.evaluated_step != now_.step);
  }
  Retention keep() const {
    const auto& train = config_.train;
    return {.newest = train.keep_checkpoints,
            .every = train.keep_every,
            .best = train.keep_best ? now_.best_step : 0};
  }

  // What is due after a step; true when training is over. An interruption leaves it for later.
  bool settle(Stopwatch& watch) {
    const auto& train = config_.train;
    const bool ends = is_over(), evaluates = ends || every(train.evaluate_every);
    const bool saves = ends || noted_signal() != 0 || every(train.checkpoint_every);
    now_.unevaluated = evaluates;
    if (!evaluates && !saves) return false;
    if (evaluates) log_step();
    readback_.flush();
    watch.pause();
    now_.seconds = watch.seconds();
    check_interruption();
    const bool is_best = evaluates && validate();
    now_.unevaluated = false;
    const bool over = evaluates && is_over();  // time that has run out since ends the next step
    if (saves || over || (is_best && train.keep_best)) save();
    watch.go_on();
    return over;
  }

  void prepare_folder() {
    const auto checkpoint = options_.resume ? newest_checkpoint(options_.out) : std::nullopt;
    RunConfig resolved = config_;
    resolved.model = task_->model_config();
    auto& data_options = resolved.data.options;
    data_options = find_data_source(resolved.data.name).resolve(data_options);
    const auto tree = written(resolved);
    const auto data = checksum_of(task_->splits());
    if (checkpoint) {
      check_same_run(tree, folder_.config(), checkpoint->progressed, data);
      now_ = checkpoint->progressed;
      step_.weights().load(checkpoint->weights, options_.out);
      step_.load(checkpoint->optimizer);
      feed_.seek(now_.position);
      saved_ = state();
      logged_ = now_.step;
    }
    // Nothing has been written so far, and nothing is refused from here on.
    now_.data = data;
    if (options_.resume && !return_to(options_.out, now_, keep())) forget_best();
    make_folder(folder_.checkpoints());  // from here on the folder is that of a run (train.cpp)
    write_file(folder_.config(), to_yaml(tree));
    write_file(folder_.card(), to_json(card_of(*task_), 2) + "\n");
    save_facts(facts_of(splits_), folder_);
    log_ = std::make_unique<RunLog>(options_.out,
                                    LogStart{.step = now_.step, .evaluated = !owes_evaluation()},
                                    config_.train.events);
    log_->text("config", "```yaml\n" + to_yaml(tree) + "```");
  }

  void forget_best() {
    warn(
        fmt::format("{}: the best weights, of step {}, are lost; the next evaluation chooses again",
                    options_.out, now_.best_step));
    now_.best_step = now_.evaluated_step = now_.stale = now_.plateau.waited = 0;
  }

  void take_over(const Inheritance& from) {
    auto weights = step_.weights().saved();
    info(options_.label + ": " + move_weights(from.weights, weights, from.how).text());
    step_.begin_with(weights, options_.out);
  }

  void step(Progress& bar, const Stopwatch& watch) {
    check_interruption();
    const auto& train = config_.train;
    std::vector<Batch> batches;
    int64_t padded = 0;
    double tokens = 0;
    for (int64_t i = 0; i < train.accumulate; ++i) {
      batches.push_back(feed_.next());
      padded = std::max(padded, batches.back().tokens.numel());
      tokens += static_cast<double>(batches.back().real_tokens);
    }
    rate_ =
        train.optimizer.learning_rate *
        schedule_factor(train.schedule, {.step = paced_step(now_.step + 1, total_, time_fraction()),
                                         .total = total_,
                                         .epoch = now_.position.epoch,
                                         .drops = now_.plateau.drops});
    const auto work = [&] { step_.run(batches, now_.step * train.accumulate, rate_); };
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
    now_.tokens += tokens;
    ++now_.step;
    now_.seconds = watch.seconds();
    report(bar);
  }

  void report(Progress& bar) {
    if (every(config_.train.log_every) || now_.step == total_ || now_.step == 1)
      log_step();
    else
      readback_.poll();
    const auto fixed = [](double value) { return fmt::format("{:.4f}", value); };
    const auto short_power = [](double value) { return fmt::format("{:.2e}", value); };
    bar.update(now_.step,
               {{"loss", loss_, fixed},
                {"tok/s", now_.tokens / now_.seconds, human_count},
                {"lr", rate_, short_power, /*minor=*/true},
                {"mem", now_.peak_bytes, human_bytes, /*minor=*/true}},
               {.used = now_.seconds, .most = config_.train.max_seconds});
  }

  // Once for each step, and not for one of an earlier process.
  void log_step() {
    if (logged_ == now_.step) return;
    logged_ = now_.step;
    readback_.send(step_.sums(), [this, rate = rate_, at = now_](const Readback::Numbers& numbers) {
      log(numbers, rate, at);
    });
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

  // True when these weights are the best so far. A score that is not finite never is.
  bool validate() {
    const auto& train = config_.train;
    const Averaged averaged(step_);
    const auto found =
        evaluate(*task_, *task_->splits().valid, train.sampler, train.evaluate_samples);
    write_metrics("valid", found);
    now_.evaluated_step = now_.step;
    const auto& first = found.metrics.front();
    const auto better_by = [&](double before) {
      if (!std::isfinite(first.value)) return -std::numeric_limits<double>::infinity();
      if (now_.best_step == 0) return std::numeric_limits<double>::infinity();
      return first.larger_is_better ? first.value - before : before - first.value;
    };
    const bool counts = better_by(now_.mark) > train.min_delta, is_best = better_by(now_.best) > 0;
    now_.stale = counts ? 0 : now_.stale + 1;
    if (counts) now_.mark = first.value;
    if (is_best) save_best(first.value);
    tell(found, is_best);
    follow_plateau();
    return is_best;
  }

  // Evaluations during the warmup do not count.
  void follow_plateau() {
    const auto& schedule = config_.train.schedule;
    const auto before = now_.plateau;
    if (schedule.decay != Decay::plateau) return;
    if (now_.stale == 0)
      now_.plateau.waited = 0;
    else if (paced_step(now_.step, total_, time_fraction()) >= schedule.warmup_steps)
      now_.plateau = after_no_better_score(schedule, before);
    if (now_.plateau.drops > before.drops && !is_over())
      info(
          fmt::format("{}: step {}: the learning rate drops, after {} evaluations without a "
                      "better score",
                      options_.label, now_.step, schedule.plateau_patience));
  }

  void save_best(double score) {
    require_finite_weights();
    now_.best = score;
    now_.best_step = now_.step;
    save_safetensors(folder_.best(), step_.weights().saved(),
                     {{"format", "pt"}, {"step", std::to_string(now_.step)}});
    now_.best_sha256 = sha256_of_file(folder_.best());
  }

  void tell(const Evaluation& found, bool is_best) const {
    std::string scores;
    for (const auto& metric : found.metrics)
      scores += fmt::format("{}{} {:.4g}", scores.empty() ? "" : ", ", metric.name, metric.value);
    const auto rank = is_best ? "the best so far"
                      : now_.best_step == 0
                          ? "not finite"
                          : fmt::format("the best is {:.4g} at step {}", now_.best, now_.best_step);
    info(fmt::format("{}: step {}: valid {} ({})", options_.label, now_.step, scores, rank));
  }

  // The only wait for the device is here, and only when something is saved.
  void require_finite_weights() {
    std::vector<Tensor> finite;
    for (const auto& weight : step_.weights().all())
      finite.push_back(at::isfinite(weight.value.detach()).all());
    if (finite.empty() || at::stack(finite).all().item<bool>()) return;
    throw std::runtime_error(
        fmt::format("the weights are not finite at step {}; lower train.learning_rate", now_.step));
  }

  // What tells one checkpoint from another: an evaluation changes it too.
  std::tuple<int64_t, int64_t, bool> state() const {
    return {now_.step, now_.evaluated_step, now_.unevaluated};
  }

  void save() {
    if (saved_ == state()) return;
    require_finite_weights();
    save_checkpoint(options_.out, now_, step_.weights().saved(), step_.state(), keep());
    saved_ = state();
  }

  Result conclude() {
    const bool chosen = now_.best_step > 0;
    if (chosen) publish_best();
    const auto& splits = task_->splits();
    const auto valid = evaluate(*task_, *splits.valid, config_.train.sampler);
    const auto test = evaluate(*task_, *splits.test, config_.train.sampler);
    write_metrics("test", test);
    const auto& score = test.metrics.front();
    Result result = {.task = config_.task,
                     .mechanism = mechanism_label(config_.model),
                     .seed = static_cast<int64_t>(config_.seed),
                     .metric = score.name,
                     .larger_is_better = score.larger_is_better,
                     .score = finite(score.value),
                     .valid_score = finite(valid.metrics.front().value),
                     .parameters = task_->parameter_count(),
                     .steps = now_.step,
                     .best_step = now_.best_step,
                     .tokens_per_second = now_.seconds > 0 ? now_.tokens / now_.seconds : 0,
                     .peak_bytes = now_.peak_bytes,
                     .seconds = now_.seconds,
                     .reason = ""};
    if (!chosen) {
      result.reason = fmt::format("no evaluation on valid gave a finite {}", score.name);
      result.score = result.valid_score = {};
    } else if (!result.score) {
      result.reason = fmt::format("the {} on test is {}", score.name, score.value);
    }
    if (!result.reason.empty()) result.status = "FAIL";
    write_result(result, options_.out);
    return result;
  }

  static std::optional<double> finite(double value) {
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  }

  void publish_best() {
    const auto model = folder_.weights(), best = folder_.best();
    if (fs::exists(best)) fs::rename(best, model);
    fs::remove(best);  // where both were names of one file, the rename has done nothing
    load_weights(task_->model(), load_safetensors(model).tensors, options_.out);
  }

  RunConfig config_;
  TrainOptions options_;
  RunFolder folder_;
  Splits splits_;  // as they were loaded; the task may have arranged its own
  std::unique_ptr<Task> task_;
  Feed feed_;
  Step step_;
  Readback readback_;
  int64_t total_;  // steps
  std::unique_ptr<RunLog> log_;
  Progressed now_;
  int64_t largest_ = 0, logged_ = 0;  // padded tokens of a batch; the last step with a line
  double rate_ = 0, loss_ = 0;        // of the last step; the last that arrived
  std::optional<std::tuple<int64_t, int64_t, bool>> saved_;  // state() of the last checkpoint
};

}  // namespace

Result train_from(const Inheritance& weights, const RunConfig& config,
                  const TrainOptions& options) {
  return Trainer(config, options, weights).run();
}

}  // namespace longbow
