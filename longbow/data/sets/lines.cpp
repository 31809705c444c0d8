// Your own running text, for language models.
#include <filesystem>

#include "longbow/corpus/readers/heading.h"
#include "longbow/corpus/readers/lines.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct LinesConfig {
  TextFiles files = {.train = "train.txt"};
  corpus::SplitOptions fractions = {.valid_fraction = 0.05, .test_fraction = 0.05};
  Parting parting = Parting::order;
  int64_t length = 256;
  bool across = true, keep_lines = true;
  corpus::LinesOptions lines = {};
  corpus::TextOptions text = {};
};
template <class V>
void fields(V& v, LinesConfig& c) {
  v("train", c.files.train,
    "file of the training split, or a folder of .txt files, in data.path; plain, .gz or .xz");
  v("valid", c.files.valid,
    "the same for the validation split; empty: a part of the training text");
  v("test", c.files.test, "the same for the test split; empty: a part of the training text");
  v("parting", c.parting,
    "which part, where a split has no file: the last records, or some by a hash of data.seed and "
    "the record");
  v("length", c.length, "tokens of a sample", range(2, 1e6));
  v("across", c.across,
    "a sample may hold the end of one record and the beginning of the next; false: records are "
    "kept apart");
  v("keep_lines", c.keep_lines, "the tokenizer's end token, where it has one, ends every record");
  fields(v, c.lines);
  fields(v, c.fractions);
  fields(v, c.text);
}

void check(const LinesConfig& config) {
  check_fractions(config.files, config.fractions);
  if (config.lines.unit == corpus::LinesUnit::section) (void)corpus::Heading(config.lines.heading);
}

Node data_for(const std::string& file) {
  const std::filesystem::path path(file);
  return Node::map({{"path", folder_of(path)},
                    {"lines", Node::map({{"train", Node::string(path.filename().string())}})}});
}

}  // namespace

DataSource lines_data_set() {
  return text_source<LinesConfig>(
      {.name = "lines",
       .description = "your own text: a file or a folder of files, for language models",
       .objective = "causal_lm",
       .data_for = data_for,
       .recipe = {"{task: lines, data: {path: ., tokenizer: {train: byte_bpe, vocabulary: 4000}, "
                  "lines: {train: train.txt, length: 128}}}",
                  "what your text allows"}},
      [](const DataConfig& data, const LinesConfig& config) {
        TextCorpus corpus = {.role = TextRole::language,
                             .windows = {.length = config.length, .across = config.across},
                             .keep_lines = config.keep_lines};
        read_from(corpus, files_in(data.path, config.files), config.fractions, config.parting,
                  data.seed, [config](const std::string& path, const corpus::RecordSink& sink) {
                    corpus::read_lines(path, config.text, config.lines, sink);
                  });
        return corpus;
      },
      check);
}

}  // namespace longbow
