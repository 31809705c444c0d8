// English novels of the nineteenth century, for language models over long texts.
#include <filesystem>

#include "longbow/corpus/readers/lines.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct NovelsConfig {
  bool across = false;
  int64_t length = 512;
  double valid_fraction = 0.05, test_fraction = 0.05;
};
template <class V>
void fields(V& v, NovelsConfig& c) {
  v("across", c.across,
    "a sample may hold the end of one novel and the beginning of the next; false: novels are kept "
    "apart");
  v("length", c.length, "tokens of a sample", range(2, 1e6));
  v("valid_fraction", c.valid_fraction,
    "of the novels of the folder corpus, chosen by a hash of data.seed, for validation",
    range(0.001, 0.4));
  v("test_fraction", c.test_fraction, "the same for the test", range(0.001, 0.4));
}

ReadFile reader_of(const corpus::LinesOptions& options) {
  return [options](const std::string& path, const corpus::RecordSink& sink) {
    corpus::read_lines(path, {}, options, sink);
  };
}

// A file for each split, in which a heading opens each novel; else a folder with a novel a file.
TextCorpus novels_corpus(const DataConfig& data, const NovelsConfig& config) {
  TextCorpus corpus = {.role = TextRole::language,
                       .windows = {.length = config.length, .across = config.across},
                       .keep_lines = true};
  const auto folder = (std::filesystem::path(data.path) / "corpus").string();
  if (!find_packed_or_plain(data.path, "train.txt") && std::filesystem::is_directory(folder)) {
    read_from(corpus, {.train = folder}, {config.valid_fraction, config.test_fraction},
              Parting::hash, data.seed, reader_of({.unit = corpus::LinesUnit::file}));
    return corpus;
  }
  const auto file = [&](const char* name) { return published_file("novels", data.path, {name}); };
  read_from(corpus, {file("train.txt"), file("valid.txt"), file("test.txt")}, {}, Parting::hash,
            data.seed, reader_of({.unit = corpus::LinesUnit::section, .heading = "=== (.+) ==="}));
  return corpus;
}

}  // namespace

DataSource novels_data_set() {
  return text_source<NovelsConfig>(
      {.name = "novels",
       .description = "English novels, 1839 to 1911: running text of books; perplexity",
       .objective = "causal_lm",
       .files = {"train.txt", "valid.txt", "test.txt"},
       .recipe = {"{task: novels, data: {path: ., tokenizer: {train: byte_bpe, vocabulary: "
                  "2000}, novels: {length: 128}}, train: {max_steps: 150, batch_size: 16, "
                  "learning_rate: 3e-3, evaluate_every: 0}}",
                  "a perplexity of 493 over 2,000 tokens"},
       .origin = {.licence = "public domain",
                  .published = "Computational Stylistics Group, "
                               "https://github.com/computationalstylistics/100_english_novels",
                  .files = {"corpus: the folder with a .txt file for each of 100 novels, or",
                            "train.txt, valid.txt, test.txt: novels one after another, each below "
                            "a line '=== Author_Title_Year ==='"}}},
      novels_corpus);
}

}  // namespace longbow
