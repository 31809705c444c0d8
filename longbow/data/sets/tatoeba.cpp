// Sentences of tatoeba.org with their translations, as manythings.org packs them.
#include "longbow/corpus/readers/parallel.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct TatoebaConfig {
  std::string language = "deu";
  bool swap = false;
  double valid_fraction = 0.05, test_fraction = 0.05;
};
template <class V>
void fields(V& v, TatoebaConfig& c) {
  v("language", c.language, "of the translations, as the file has it in its name: deu, kor, fra");
  v("swap", c.swap, "translate to English");
  v("valid_fraction", c.valid_fraction,
    "of the source sentences, chosen by a hash of data.seed, for validation", range(0.001, 0.4));
  v("test_fraction", c.test_fraction, "the same for the test", range(0.001, 0.4));
}

}  // namespace

DataSource tatoeba_data_set() {
  return text_source<TatoebaConfig>(
      {.name = "tatoeba",
       .description = "Tatoeba: short sentences, English to German, Korean and others; BLEU",
       .objective = "translation",
       .files = {"deu.txt"},
       .recipe = {"{task: tatoeba, data: {path: ., tokenizer: {vocabulary: 4000, "
                  "lowercase: false}, tatoeba: {language: kor}}, train: {max_steps: 300, "
                  "learning_rate: 2e-3}}",
                  "a perplexity of 145 over 4,000 tokens, from 3,408 pairs"},
       .origin = {.licence = "CC BY 2.0 France",
                  .published = "https://www.manythings.org/anki/, from https://tatoeba.org",
                  .files = {"deu.txt, of deu-eng.zip: English, a tab, German",
                            "kor.txt, of kor-eng.zip, and so on: the same for the option "
                            "language"}}},
      [](const DataConfig& data, const TatoebaConfig& config) {
        TextCorpus corpus = {.role = TextRole::translation};
        // Several lines have the same source: they belong to one split.
        read_from(
            corpus, {.train = published_file("tatoeba", data.path, {config.language + ".txt"})},
            {config.valid_fraction, config.test_fraction, corpus::SplitKey::first_text},
            Parting::hash, data.seed,
            [swap = config.swap](const std::string& path, const corpus::RecordSink& sink) {
              corpus::TextFile table(path);
              corpus::read_parallel(
                  table,
                  {.format = corpus::TableFormat::tsv, .header = false, .text = "1", .second = "2"},
                  {.swap = swap}, sink);
            });
        return corpus;
      });
}

}  // namespace longbow
