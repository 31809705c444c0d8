// Multi30k (Elliott et al., 2016, arXiv:1605.00459): captions of pictures in English and German.
#include "longbow/data/encoding/text_data.h"
#include "longbow/data/encoding/translations.h"

namespace longbow {
namespace {

enum class Multi30kTest { flickr_2016, flickr_2017, mscoco_2017, flickr_2018 };
constexpr std::array<std::string_view, 4> names_of(Multi30kTest) {
  return {"test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"};
}

struct Multi30kConfig {
  Multi30kTest test = Multi30kTest::flickr_2016;
  bool swap = false;
};
template <class V>
void fields(V& v, Multi30kConfig& c) {
  v("test", c.test, "which of the test sets");
  v("swap", c.swap, "translate from German to English");
}

}  // namespace

DataSource multi30k_data_set() {
  return text_source<Multi30kConfig>(
      {.name = "multi30k",
       .description = "Multi30k: captions of pictures, English to German; BLEU",
       .objective = "translation",
       .files = {"train.en", "train.de", "val.en", "val.de", "test_2016_flickr.en",
                 "test_2016_flickr.de"},
       .recipe = {"{task: multi30k, data: {path: ., tokenizer: {train: bpe, vocabulary: "
                  "4000}}, train: {max_steps: 300, learning_rate: 2e-3}}",
                  "a perplexity of 117 over 4,000 tokens"},
       .origin = {.licence = "non-commercial research and education",
                  .published = "https://github.com/multi30k/dataset, in data/task1/raw",
                  .files = {"train.en, train.de: 29,000 pairs", "val.en, val.de: 1,014 pairs",
                            "test_2016_flickr.en, test_2016_flickr.de: 1,000 pairs",
                            "test_2017_flickr, test_2017_mscoco, test_2018_flickr: 1,000, 461 and "
                            "1,071 pairs, for the option test"}}},
      [](const DataConfig& data, const Multi30kConfig& config) {
        const auto files = [&](const std::string& name) {
          return paired_files("multi30k", data.path, {name}, "en", "de");
        };
        return translation_corpus({files("train"), files("val"), files(name_of(config.test))},
                                  {.swap = config.swap});
      });
}

}  // namespace longbow
