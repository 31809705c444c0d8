// KLUE-NLI (Park et al., 2021, arXiv:2105.09680): what follows from a Korean sentence.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct KlueNliConfig {
  double valid_fraction = 0.05;
  // Each premise has three hypotheses: one that is trained on is not validated on.
  corpus::SplitOptions split() const {
    return {
        .valid_fraction = valid_fraction, .test_fraction = 0, .key = corpus::SplitKey::first_text};
  }
};
template <class V>
void fields(V& v, KlueNliConfig& c) {
  v("valid_fraction", c.valid_fraction,
    "of the premises of the training file, chosen by a hash of data.seed, for validation",
    range(0.001, 0.5));
}

}  // namespace

DataSource klue_nli_data_set() {
  return text_source<KlueNliConfig>(
      {.name = "klue_nli",
       .description = "KLUE-NLI: whether a Korean sentence follows from another, 3 classes; "
                      "accuracy",
       .objective = "pairs",
       .files = {"klue-nli-v1.1_train.json", "klue-nli-v1.1_dev.json"},
       .recipe = {"{task: klue_nli, data: {path: ., tokenizer: {vocabulary: 8000, "
                  "lowercase: false}}, train: {max_steps: 300, learning_rate: 1e-3}}",
                  "an accuracy of 39 %, where each class has 33 %"},
       .origin = {.licence = "CC BY-SA 4.0",
                  .published = "KLUE, https://github.com/KLUE-benchmark/KLUE, in "
                               "klue_benchmark/klue-nli-v1.1",
                  .files = {"klue-nli-v1.1_train.json: 24,998 pairs",
                            "klue-nli-v1.1_dev.json: 3,000 pairs, the test split"}}},
      [](const DataConfig& data, const KlueNliConfig& config) {
        const auto file = [&](const std::string& part) {
          return published_file("klue_nli", data.path, {"klue-nli-v1.1_" + part + ".json"});
        };
        return table_corpus({.train = file("train"), .test = file("dev")},
                            {.text = "premise",
                             .second = "hypothesis",
                             .label = "gold_label",
                             .classes = {"entailment", "neutral", "contradiction"}},
                            config.split(), data.seed);
      });
}

}  // namespace longbow
