// Naver sentiment movie corpus: Korean reviews, negative or positive.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {

DataSource nsmc_data_set() {
  return text_source<HeldOut>(
      {.name = "nsmc",
       .description = "NSMC: whether a Korean movie review is positive, 2 classes; accuracy",
       .objective = "classification",
       .files = {"ratings_train.txt", "ratings_test.txt"},
       .recipe = {"{task: nsmc, data: {path: ., tokenizer: {vocabulary: 8000, lowercase: "
                  "false}}, train: {max_steps: 300, batch_size: 64, learning_rate: 2e-3}}",
                  "an accuracy of 81 %, where each class has 50 %"},
       .origin = {.licence = "CC0 1.0",
                  .published = "Lucy Park, https://github.com/e9t/nsmc",
                  .files = {"ratings_train.txt or train.tsv: 150,000 reviews",
                            "ratings_test.txt or test.tsv: 50,000 reviews"}}},
      [](const DataConfig& data, const HeldOut& config) {
        const auto file = [&](const std::string& part) {
          return published_file("nsmc", data.path, {"ratings_" + part + ".txt", part + ".tsv"});
        };
        // A few of the published rows have no review.
        return table_corpus({.train = file("train"), .test = file("test")},
                            {.format = corpus::TableFormat::tsv,
                             .text = "document",
                             .label = "label",
                             .empty = corpus::Empty::skip,
                             .classes = {"negative", "positive"},
                             .label_map = Node::map({{"0", Node::string("negative")},
                                                     {"1", Node::string("positive")}})},
                            config.split(), data.seed);
      });
}

}  // namespace longbow
