// WMT14 English-German, as nlp.stanford.edu/projects/nmt packs it, or samples of it.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/text_data.h"
#include "longbow/data/encoding/translations.h"

namespace longbow {
namespace {

struct Wmt14Config {
  TextFiles files = {};
  corpus::ParallelOptions pairs = {};
};
template <class V>
void fields(V& v, Wmt14Config& c) {
  v("train", c.files.train,
    "files of the training split, in data.path, without their endings .en and .de, or a CSV with "
    "the columns en and de; empty: train, else sample_tok_train");
  v("valid", c.files.valid,
    "the same for the validation split; empty: newstest2013, else sample_tok_val");
  v("test", c.files.test,
    "the same for the test split; empty: newstest2014, else newstest2014_de-en.csv");
  fields(v, c.pairs);
}

void check(const Wmt14Config& config) {
  corpus::check_parallel_options(config.pairs);
}

PairedFiles table_in(const std::string& path) {
  return {.first = path,
          .columns = {.format = corpus::TableFormat::csv, .text = "en", .second = "de"}};
}

// The files of a split: those that an option names, or the first of these names.
PairedFiles files_for(const DataConfig& data, const std::string& said,
                      std::vector<std::string> names) {
  if (said.ends_with(".csv")) return table_in(published_file("wmt14", data.path, {said}));
  if (!said.empty()) names = {said};
  return paired_files("wmt14", data.path, names, "en", "de");
}

PairedFiles test_files(const DataConfig& data, const std::string& said) {
  const auto table = find_packed_or_plain(data.path, "newstest2014_de-en.csv");
  const bool has_pair = find_packed_or_plain(data.path, "newstest2014.en").has_value();
  if (said.empty() && table && !has_pair) return table_in(*table);
  return files_for(data, said, {"newstest2014"});
}

}  // namespace

DataSource wmt14_data_set() {
  return text_source<Wmt14Config>(
      {.name = "wmt14",
       .description = "WMT14: news and proceedings, English to German; BLEU",
       .objective = "translation",
       .files = {"train.en", "train.de", "newstest2013.en", "newstest2013.de", "newstest2014.en",
                 "newstest2014.de"},
       .recipe = {"{task: wmt14, data: {path: ., tokenizer: {train: bpe, vocabulary: "
                  "4000}, wmt14: {test: sample_tok_test, max_length: 40}}, train: "
                  "{max_steps: 200, learning_rate: 2e-3}}",
                  "a perplexity of 702 over 4,000 tokens, pairs of up to 40 words"},
       .origin = {.licence = "free for research",
                  .published = "WMT, https://www.statmt.org/wmt14/translation-task.html; packed at "
                               "https://nlp.stanford.edu/projects/nmt/; a sample at "
                               "https://github.com/harvardnlp/seq2seq-attn, in data",
                  .files = {"train.en, train.de: 4.5 million pairs",
                            "newstest2013.en, newstest2013.de: 3,000 pairs",
                            "newstest2014.en, newstest2014.de, or newstest2014_de-en.csv with the "
                            "columns de and en: the test split",
                            "sample_tok_train, sample_tok_val, sample_tok_test (.en, .de): the "
                            "sample's src-train.txt, targ-train.txt and so on"}}},
      [](const DataConfig& data, const Wmt14Config& config) {
        return translation_corpus(
            {files_for(data, config.files.train, {"train", "sample_tok_train"}),
             files_for(data, config.files.valid, {"newstest2013", "sample_tok_val"}),
             test_files(data, config.files.test)},
            config.pairs);
      },
      check);
}

}  // namespace longbow
