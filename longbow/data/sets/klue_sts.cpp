// KLUE-STS (Park et al., 2021, arXiv:2105.09680): how alike two Korean sentences are.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {

DataSource klue_sts_data_set() {
  return text_source<HeldOut>(
      {.name = "klue_sts",
       .description = "KLUE-STS: how alike two Korean sentences are, 0 to 5; Pearson's r and F1",
       .objective = "regression",
       .files = {"klue-sts-v1.1_train.json", "klue-sts-v1.1_dev.json"},
       .recipe = {"{task: klue_sts, data: {path: ., tokenizer: {vocabulary: 8000, "
                  "lowercase: false}}, model: {threshold: 3}, train: {max_steps: 300, "
                  "learning_rate: 1e-3}}",
                  "a Pearson's r of 0.44"},
       .origin = {.licence = "CC BY-SA 4.0",
                  .published = "KLUE, https://github.com/KLUE-benchmark/KLUE, in "
                               "klue_benchmark/klue-sts-v1.1",
                  .files = {"klue-sts-v1.1_train.json or klue-sts-v1.1_train.reduced.json: 11,668 "
                            "pairs",
                            "klue-sts-v1.1_dev.json: 519 pairs, the test split"}}},
      [](const DataConfig& data, const HeldOut& config) {
        const TextFiles files = {
            .train =
                published_file("klue_sts", data.path,
                               {"klue-sts-v1.1_train.json", "klue-sts-v1.1_train.reduced.json"}),
            .test = published_file("klue_sts", data.path, {"klue-sts-v1.1_dev.json"})};
        return table_corpus(files,
                            {.text = "sentence1", .second = "sentence2", .value = "labels.label"},
                            config.split(), data.seed);
      });
}

}  // namespace longbow
