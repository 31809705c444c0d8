// KLUE-YNAT (Park et al., 2021, arXiv:2105.09680): topics of Korean news titles.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {

DataSource klue_ynat_data_set() {
  return text_source<HeldOut>(
      {.name = "klue_ynat",
       .description = "KLUE-YNAT: the topic of a Korean news title, 7 classes; macro F1",
       .objective = "classification",
       .files = {"ynat-v1.1_train.json", "ynat-v1.1_dev.json"},
       .recipe = {"{task: klue_ynat, data: {path: ., tokenizer: {vocabulary: 8000, "
                  "lowercase: false}}, model: {metric: macro_f1}, train: {max_steps: 300, "
                  "batch_size: 64, learning_rate: 2e-3}}",
                  "a macro F1 of 74 %; always the same class gives 2 %"},
       .origin = {.licence = "CC BY-SA 4.0",
                  .published = "KLUE, https://github.com/KLUE-benchmark/KLUE, in "
                               "klue_benchmark/ynat-v1.1",
                  .files = {"ynat-v1.1_train.json or ynat_train.json: 45,678 titles",
                            "ynat-v1.1_dev.json or ynat_dev.json: 9,107 titles, the test split"}}},
      [](const DataConfig& data, const HeldOut& config) {
        const auto file = [&](const std::string& part) {
          return published_file("klue_ynat", data.path,
                                {"ynat-v1.1_" + part + ".json", "ynat_" + part + ".json"});
        };
        return table_corpus(
            {.train = file("train"), .test = file("dev")},
            {.text = "title",
             .label = "label",
             .classes = {"IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"}},
            config.split(), data.seed);
      });
}

}  // namespace longbow
