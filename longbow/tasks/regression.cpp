#include "longbow/tasks/regression.h"

#include <ATen/ATen.h>

#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"
#include "longbow/tasks/sequences.h"

namespace longbow {
namespace {

struct RegressionConfig {
  SequencesConfig sequences = {};
  std::vector<double> range = {};
};
template <class V>
void fields(V& v, RegressionConfig& c) {
  fields(v, c.sequences);
  v("range", c.range,
    "two rising numbers, [0, 5]: a sigmoid keeps values between them; empty: any value");
}

void check(const RegressionConfig& config, const Node& tree) {
  check_sequences(config.sequences, tree);
  if (config.range.empty() || (config.range.size() == 2 && config.range[0] < config.range[1]))
    return;
  throw UserError(tree.find("range")->place, "model.range is not two rising numbers",
                  "write [0, 5], or leave it out");
}

class Regression : public Task {
 public:
  Regression(const Splits& splits, const RegressionConfig& config, const TaskOptions& options)
      : Task(checked(splits), options),
        config_(config),
        sequences_(splits_, config.sequences, splits.train->values(), options) {}

  Part& model() override { return sequences_.model(); }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto guesses = ranged(sequences_(batch, context));
    const auto loss = (guesses - batch.values).square().sum();
    auto sums = correlation_sums(guesses, batch.values);
    const auto count = [&](int64_t of) { return at::full({}, of, loss.options()); };
    sums.insert({{"loss", loss.detach()},
                 {"weight", count(batch.values.numel())},
                 {"count", count(batch.values.size(0))}});
    return with_extra_loss({loss, std::move(sums)}, context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    const double error = mean_of(sums, "loss", "weight");
    std::vector<Metric> all = {{"mse", error, false}, {"loss", error, false}};
    if (sums.contains("products"))  // tables are not read back while training
      all.insert(all.begin(), {"pearson", pearson(sums, sum_of(sums, "count"))});
    return all;
  }

  Node model_config() const override {
    auto resolved = config_;
    resolved.sequences = sequences_.config();
    auto& attention = resolved.sequences.model.towers.encoder.attention;
    attention = resolved_attention(attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_regressor")},
                      {"vocabulary", Node::integer(splits_.vocabulary)},
                      {"values", Node::integer(splits_.train->values())}});
  }

  Texts texts() const override {
    return {.read = symbols(),
            .longest = sequences_.config().model.towers.encoder.max_length,
            .pairs = has_pairs()};
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return value_predictions(ranged(sequences_(batch, context)), batch.values);
  }

 private:
  static const Splits& checked(const Splits& splits) {
    if (splits.train->values() == 0)
      throw UserError("objective regression: the samples have no values",
                      "leave objective out, to take what the data is made for");
    return splits;
  }
  Tensor ranged(const Tensor& outputs) const {
    const auto x = outputs.to(wide(outputs));
    if (config_.range.empty()) return x;
    return config_.range[0] + (config_.range[1] - config_.range[0]) * x.sigmoid();
  }
  RegressionConfig config_;
  Sequences sequences_;
};

}  // namespace

Objective regression_objective() {
  return {.name = "regression",
          .description = "one or several values a sequence or a pair of sequences",
          .options = describe<RegressionConfig>(),
          .check = [](const Node& model) { check(read<RegressionConfig>(model, "model"), model); },
          .make =
              [](const Splits& splits, const Node& model, const TaskOptions& options) {
                return std::make_unique<Regression>(splits, read<RegressionConfig>(model, "model"),
                                                    options);
              }};
}

}  // namespace longbow
