#pragma once
// What the files of the objectives share.
#include <span>

#include "longbow/data/samples/framed.h"
#include "longbow/models/encoder/encoder_config.h"
#include "longbow/tasks/images.h"
#include "longbow/tasks/task.h"

namespace longbow {

// A task with a described config that has an `encoder`, and a model that the constructor makes of
// it, of splits_ and of the seed.
template <class C, class M>
class TaskOf : public Task {
 public:
  using Config = C;
  // Hidden by those of a task that has more to say: a config whose parts are all there.
  static Node complete(const Node& model) { return model; }
  // Hidden by those of a task that has more to check: a config, before any data is opened and again
  // when its lengths are known, and what the data must have. `tree` is where the config was read
  // from.
  static void check(const Config& config, const Node& tree) { check_encoder(config.encoder, tree); }
  static void check_data(const Splits&, const Config&, const Node& /*tree*/) {}
  // Hidden by those of a task that reads other samples than the data's, or has more lengths that a
  // config may leave to the data.
  static Splits arranged(const Splits& splits, const Config&) { return framed(splits); }
  static void fit(Config& config, const Splits& splits, int64_t bucket, const Node& tree) {
    check_options(tree, "model", [&] { fit_length(config.encoder.max_length, splits, bucket); });
  }

  Part& model() override { return *model_; }
  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return with_extra_loss(outcome(batch, context), context);
  }
  Node model_config() const override { return written(resolved()); }
  Texts texts() const override {
    return {.read = symbols(), .longest = config_.encoder.max_length, .frame = splits_.frame};
  }

 protected:
  TaskOf(Splits splits, const Config& config, const TaskOptions& options)
      : Task(std::move(splits), options), config_(config) {}
  // Without what modules add to the loss.
  virtual Outcome outcome(const Batch& batch, Context& context) = 0;
  virtual Config resolved() const {
    auto config = config_;
    config.encoder.attention = resolved_attention(config.encoder.attention);
    return config;
  }
  Config config_;
  std::shared_ptr<M> model_;
};

// The row with what follows from the task's class.
template <class T>
Objective objective_of(Objective row) {
  const auto checked = [](const Node& model) {
    const auto whole = T::complete(model);
    auto config = read<typename T::Config>(whole, "model");
    T::check(config, whole);
    return config;
  };
  // The samples, and the config with the lengths that they have.
  const auto fitted = [checked](const Splits& splits, const Node& model, int64_t bucket) {
    const auto whole = T::complete(model);
    auto config = checked(whole);
    T::check_data(splits, config, whole);
    fit_image(config.encoder, splits, whole);
    auto own = T::arranged(splits, config);
    T::fit(config, own, bucket, whole);
    T::check(config, whole);
    return std::pair(std::move(own), std::move(config));
  };
  row.options = describe<typename T::Config>();
  row.complete = T::complete;
  row.check = checked;
  row.check_data = fitted;
  row.make = [fitted](const Splits& splits, const Node& model, const TaskOptions& options) {
    const auto [own, config] = fitted(splits, model, options.bucket);
    auto task = std::make_unique<T>(own, config, options);
    task->model().to(options.device);
    return task;
  };
  return row;
}

// UserError when the samples are not sequences with a class, or with one for each token.
void check_classes(const Splits& splits, const std::string& objective);

// The most frequent class of the training split, where there are classes.
std::vector<Baseline> class_baselines(const Splits& splits);
// Every word as likely as it is frequent in the training split: of the words that are predicted of
// a sample, out of a vocabulary.
std::vector<Baseline> word_baselines(const Splits& splits, int64_t vocabulary,
                                     std::span<const int32_t> (*predicted)(const Sample&));

}  // namespace longbow
