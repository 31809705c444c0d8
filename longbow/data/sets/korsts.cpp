// KorSTS (Ham et al., 2020, arXiv:2004.03289): the STS benchmark in Korean.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct KorstsConfig {
  TextFiles files = {.train = "sts-train.tsv", .valid = "sts-dev.tsv", .test = "sts-test.tsv"};
};
template <class V>
void fields(V& v, KorstsConfig& c) {
  v("train", c.files.train, "file of the training split, in data.path; plain, .gz or .xz");
  v("valid", c.files.valid, "file of the validation split");
  v("test", c.files.test, "file of the test split");
}

}  // namespace

DataSource korsts_data_set() {
  return text_source<KorstsConfig>(
      {.name = "korsts",
       .description = "KorSTS: how alike two Korean sentences are, 0 to 5; Pearson's r",
       .objective = "regression",
       .files = {"sts-train.tsv", "sts-dev.tsv", "sts-test.tsv"},
       .recipe = {"{task: korsts, data: {path: ., tokenizer: {vocabulary: 8000, lowercase: "
                  "false}}, train: {max_steps: 300, learning_rate: 1e-3}}",
                  "a Pearson's r of 0.21"},
       .origin = {.licence = "CC BY-SA 4.0",
                  .published = "Kakao Brain, https://github.com/kakaobrain/kor-nlu-datasets, in "
                               "KorSTS",
                  .files = {"sts-train.tsv: 5,749 pairs", "sts-dev.tsv: 1,500 pairs",
                            "sts-test.tsv: 1,379 pairs"}}},
      [](const DataConfig& data, const KorstsConfig& config) {
        const auto file = [&](const std::string& name) {
          return published_file("korsts", data.path, {name});
        };
        return table_corpus(
            {file(config.files.train), file(config.files.valid), file(config.files.test)},
            {.format = corpus::TableFormat::tsv,
             .text = "sentence1",
             .second = "sentence2",
             .value = "score"},
            {}, data.seed);
      });
}

}  // namespace longbow
