#include "longbow/train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <sstream>

#include "longbow/core/file.h"
#include "longbow/nn/meter.h"
#include "longbow/nn/safetensors.h"
#include "longbow/train/checkpoint.h"
#include "longbow/train/interruption.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Lines after the checkpoint will be written again, so they go; what came before stays as it is.
void cut_metrics(const std::string& file, int64_t last_step) {
  if (!fs::exists(file)) return;
  std::istringstream lines(read_file(file));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.back() != '}') continue;
    const auto entry = parse_json(line, file);
    if (const auto* split = entry.find("split"); split && split->text == "test") continue;
    if (const auto* step = entry.find("step"); step && as_integer(*step, "step") <= last_step)
      kept += line + "\n";
  }
  write_file(file, kept);
}

// A resumed run may be longer or use other threads, but it must learn the same thing with the same
// model.
void check_same_run(const Node& now, const std::string& file) {
  const auto before = load_config(file);
  for (const auto* key : {"task", "data", "model", "seed"})
    if (to_yaml(*now.find(key)) != to_yaml(*before.find(key)))
      throw UserError(before.find(key)->place,
                      std::string(key) + " is not that of the run to resume",
                      "take the run's own config, or choose another --out");
}

class Trainer {
 public:
  Trainer(const RunConfig& config, const TrainOptions& options)
      : config_(config),
        options_(options),
        task_(config.data, config.model, config.train.sampler.bucket, config.seed, options.device),
        loader_(task_.splits().train,
                Sampler(lengths_of(*task_.splits().train), config.train.sampler, config.seed),
                config.train.loader),
        optimizer_(task_.model(), config.train.optimizer),
        random_(Random::from_seed(config.seed, 0, options.device)) {
    prepare_folder();
  }

  Result run() {
    const auto& train = config_.train;
    InterruptionGuard interruption;
    info(fmt::format("{}: {} parameters, {} training samples, {}", options_.label,
                     human_count(static_cast<double>(task_.parameter_count())),
                     task_.splits().train->size(), options_.out));
    Progress bar(options_.label, train.max_steps, options_.progress);
    bool stopped = false;
    while (now_.step < train.max_steps && !stopped) {
      step(bar);
      const bool last = now_.step == train.max_steps;
      const bool out_of_time = train.max_seconds > 0 && now_.seconds >= train.max_seconds;
      if (last || out_of_time || every(train.evaluate_every)) validate();
      stopped = out_of_time || (train.patience > 0 && now_.stale >= train.patience);
      if (last || stopped || interruption.signal() || every(train.checkpoint_every)) save();
      if (interruption.signal() && !last && !stopped) {
        bar.finish();
        throw Interrupted(interruption.signal());
      }
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
    resolved.model = task_.model_config();
    auto& attention = resolved.model.encoder.attention;
    attention = resolved_attention(attention);
    const auto tree = written(resolved);
    if (checkpoint) check_same_run(tree, in_run("config.yaml"));
    write_file(in_run("config.yaml"), to_yaml(tree));
    Node model = written(resolved.model);
    model["model_type"] = Node::string("longbow_classifier");
    model["vocabulary"] = Node::integer(task_.splits().vocabulary);
    model["classes"] = Node::integer(task_.splits().classes);
    write_file(in_run("config.json"), to_json(model, 2) + "\n");
    if (checkpoint) {
      now_ = checkpoint->progressed;
      load_weights(task_.model(), checkpoint->weights, options_.out);
      optimizer_.load(checkpoint->optimizer);
      loader_.seek(now_.position);
    }
    cut_metrics(in_run("metrics.jsonl"), now_.step);
  }

  struct Step {
    double loss = 0, correct = 0, count = 0,
           tokens = 0;  // loss is a mean, correct and count are sums
    Tensor norm;
  };

  // One optimiser step over `accumulate` batches; the loss is a mean over all of them together.
  Step update(const std::vector<Batch>& batches, double learning_rate) {
    const auto normalise = config_.train.normalise;
    double whole = 0;
    for (const auto& batch : batches)
      whole += normalise == Normalise::samples ? static_cast<double>(batch.samples)
                                               : (batch.targets != kIgnore).sum().item<double>();
    whole = std::max(whole, 1.0);
    Step result;
    std::vector<Scores> all;
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto draw = now_.step * config_.train.accumulate + static_cast<int64_t>(i);
      random_.key.select(0, 1).fill_(draw);
      all.push_back(task_.run(batches[i], random_, normalise));
      (all.back().loss / whole).backward();
      result.tokens += static_cast<double>(batches[i].real_tokens);
    }
    result.norm = optimizer_.step(learning_rate);
    for (const auto& module : task_.model().modules())
      if (auto* part = dynamic_cast<Part*>(module.get())) part->after_step(now_.step);
    for (const auto& scores : all) {
      result.loss += scores.loss.item<double>() / whole;
      result.correct += scores.correct.item<double>();
      result.count += scores.count.item<double>();
    }
    return result;
  }

  void step(Progress& bar) {
    const auto& train = config_.train;
    std::vector<Batch> batches;
    int64_t padded = 0;
    for (int64_t i = 0; i < train.accumulate; ++i) {
      batches.push_back(loader_.next());
      padded = std::max(padded, batches.back().tokens.numel());
    }
    const auto start = Clock::now();
    const double rate = train.optimizer.learning_rate *
                        schedule_factor(train.schedule, now_.step + 1, train.max_steps);
    Step done;
    const auto work = [&] { done = update(batches, rate); };
    if (padded >
        largest_) {  // memory is counted on the largest batches only: counting costs a little time
      largest_ = padded;
      now_.peak_bytes =
          std::max(now_.peak_bytes, static_cast<double>(measure(work, options_.device).peak_bytes));
    } else {
      work();
    }
    now_.seconds += seconds_since(start);
    now_.tokens += done.tokens;
    now_.position = batches.back().after;
    ++now_.step;
    report(bar, done, rate);
  }

  void report(Progress& bar, const Step& done, double rate) {
    const double loss = done.loss;
    if (!std::isfinite(loss))
      throw std::runtime_error(
          fmt::format("the loss is {} at step {}; lower train.learning_rate", loss, now_.step));
    bar.update(now_.step, {{"loss", fmt::format("{:.4f}", loss)},
                           {"tok/s", human_count(now_.tokens / now_.seconds)},
                           {"lr", fmt::format("{:.2e}", rate)},
                           {"mem", human_bytes(now_.peak_bytes)}});
    if (!every(config_.train.log_every) && now_.step != config_.train.max_steps && now_.step != 1)
      return;
    write_metrics("train", {{"loss", loss},
                            {"accuracy", done.correct / std::max(done.count, 1.0)},
                            {"learning_rate", rate},
                            {"gradient_norm", done.norm.item<double>()},
                            {"tokens_per_second", now_.tokens / now_.seconds},
                            {"seconds", now_.seconds}});
  }

  void write_metrics(const char* split, const std::vector<std::pair<std::string, double>>& values) {
    Node line = Node::map({{"step", Node::integer(now_.step)}, {"split", Node::string(split)}});
    for (const auto& [name, value] : values) line[name] = Node::number(value);
    append_line(in_run("metrics.jsonl"), to_json(line));
  }

  void validate() {
    const auto& train = config_.train;
    const auto score =
        evaluate(task_, *task_.splits().valid, train.sampler, train.evaluate_samples);
    write_metrics("valid", {{"loss", score.loss}, {"accuracy", score.accuracy}});
    const bool better = score.accuracy > now_.best;
    now_.stale = better ? 0 : now_.stale + 1;
    if (!better) return;
    now_.best = score.accuracy;
    now_.best_step = now_.step;
    save_safetensors(in_run("best.safetensors"), weights_of(task_.model()),
                     {{"format", "pt"}, {"step", std::to_string(now_.step)}});
  }

  void save() {
    save_checkpoint(options_.out, now_, weights_of(task_.model()), optimizer_.state(),
                    config_.train.keep_checkpoints);
  }

  Result conclude() {
    if (fs::exists(in_run("best.safetensors")))
      fs::rename(in_run("best.safetensors"), in_run("model.safetensors"));
    load_weights(task_.model(), load_safetensors(in_run("model.safetensors")).tensors,
                 options_.out);
    const auto& splits = task_.splits();
    const auto valid = evaluate(task_, *splits.valid, config_.train.sampler);
    const auto test = evaluate(task_, *splits.test, config_.train.sampler);
    write_metrics("test", {{"loss", test.loss}, {"accuracy", test.accuracy}});
    Result result = {.task = config_.task,
                     .mechanism = mechanism_label(config_.model.encoder),
                     .seed = static_cast<int64_t>(config_.seed),
                     .score = test.accuracy,
                     .valid_score = valid.accuracy,
                     .parameters = task_.parameter_count(),
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
  Classification task_;
  Loader loader_;
  AdamW optimizer_;
  Random random_;
  Progressed now_;
  int64_t largest_ = 0;
};

}  // namespace

Result train(const RunConfig& config, const TrainOptions& options) {
  return Trainer(config, options).run();
}

}  // namespace longbow
