#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "longbow/metrics/classification.h"
#include "longbow/metrics/correlation.h"
#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"
#include "longbow/tasks/sequences.h"

namespace longbow {
namespace {

struct RegressionConfig : SequencesConfig {
  std::vector<double> range = {};
  std::optional<double> threshold = {};
};
template <class V>
void fields(V& v, RegressionConfig& c) {
  fields(v, static_cast<SequencesConfig&>(c));
  v("range", c.range,
    "two rising numbers, [0, 5]: a sigmoid keeps values between them; empty: any value");
  v("threshold", c.threshold,
    "evaluations also give F1 of the class of values from here on; KLUE scores similarity at 3");
}

class Regression : public SequencesTask<RegressionConfig> {
 public:
  Regression(const Splits& splits, const Config& config, const TaskOptions& options)
      : SequencesTask(splits, config, splits.train->values(), options) {}
  static void check(const Config& config, const Node& tree) {
    check_sequences(config, tree);
    if (config.range.empty() || (config.range.size() == 2 && config.range[0] < config.range[1]))
      return;
    throw UserError(tree.find("range")->place, "model.range is not two rising numbers",
                    "write [0, 5], or leave it out");
  }
  static void check_data(const Splits& splits, const Config&, const Node&) {
    if (splits.train->values() == 0)
      throw UserError("objective regression: the samples have no values",
                      "leave objective out, to take what the data is made for");
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    const double error = mean_of(sums, "loss", "weight");
    std::vector<Metric> all = {{"mse", error, false}, {"loss", error, false}};
    if (sums.contains("products"))  // tables are not read back while training
      all.insert(all.begin(), {"pearson", pearson(sums, sum_of(sums, "count"))});
    if (!sums.contains("guessed")) return all;
    all.push_back({"spearman", of_columns(sums, [](const auto& guessed, const auto& wanted) {
                     return metrics::spearman(guessed, wanted).value;
                   })});
    if (const auto from = config_.threshold)
      all.push_back({"f1", of_columns(sums, [from](const auto& guessed, const auto& wanted) {
                       return metrics::f1_at_threshold(guessed, wanted, *from);
                     })});
    return all;
  }
  Node model_card() const override {
    return card("longbow_regressor",
                {{"vocabulary", splits_.vocabulary}, {"values", splits_.train->values()}});
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return value_predictions(ranged(sequences_(batch, context)), batch.values);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    const auto guesses = ranged(sequences_(batch, context));
    const auto loss = (guesses - batch.values).square().sum();
    auto sums = correlation_sums(guesses, batch.values);
    const auto count = [&](int64_t of) { return at::full({}, of, loss.options()); };
    sums.insert({{"loss", loss.detach()},
                 {"weight", count(batch.values.numel())},
                 {"count", count(batch.values.size(0))}});
    Outcome outcome = {loss, std::move(sums)};
    if (!model().is_training())
      outcome.rows = {{"guessed", guesses.detach()}, {"wanted", batch.values}};
    return outcome;
  }
  // The mean of a score over the values of a sample; 0 where there is none.
  template <class Score>
  static double of_columns(const Tensors& sums, const Score& score) {
    const auto& guessed = sums.at("guessed");
    const auto columns = guessed.size(1);
    const auto column = [](const Tensor& rows, int64_t i) {
      const auto values = rows.select(1, i).to(at::kDouble).contiguous();
      return std::vector<double>(values.data_ptr<double>(),
                                 values.data_ptr<double>() + values.numel());
    };
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) {
      const auto value = score(column(guessed, i), column(sums.at("wanted"), i));
      sum += std::isfinite(value) ? value : 0;
    }
    return sum / static_cast<double>(columns);
  }
  Tensor ranged(const Tensor& outputs) const {
    const auto x = outputs.to(wide(outputs));
    if (config_.range.empty()) return x;
    return config_.range[0] + (config_.range[1] - config_.range[0]) * x.sigmoid();
  }
};

}  // namespace

Objective regression_objective() {
  return objective_of<Regression>(
      {.name = "regression",
       .description = "one or several values a sequence or a pair of sequences",
       .bert = BertHead::values});
}

}  // namespace longbow
