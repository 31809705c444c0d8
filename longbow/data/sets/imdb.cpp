// IMDb reviews (Maas et al., 2011), byte by byte: the text task of the Long Range Arena.
#include <array>
#include <filesystem>
#include <string_view>

#include "longbow/corpus/files/text_files.h"
#include "longbow/corpus/readers/lines.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

enum class ImdbValid { held_out, test };
constexpr std::array<std::string_view, 2> names_of(ImdbValid) {
  return {"held_out", "test"};
}

struct ImdbConfig {
  ImdbValid valid = ImdbValid::held_out;
  double valid_fraction = 0.1;
  corpus::TextOptions text = {};
};
template <class V>
void fields(V& v, ImdbConfig& c) {
  v("valid", c.valid,
    "what the weights are chosen by: reviews held out of the training files, or the test files as "
    "in the Long Range Arena");
  v("valid_fraction", c.valid_fraction,
    "of the training files, chosen by a hash of data.seed and the texts, for valid: held_out",
    range(0.001, 0.5));
  fields(v, c.text);
}

struct ImdbClass {
  const char *folder, *number, *name;
};
constexpr std::array<ImdbClass, 2> kClasses = {
    {{"neg", "0", "negative"}, {"pos", "1", "positive"}}};

// A review is a file <id>_<rating>.txt in pos/ or neg/.
void read_folder(const std::string& path, const corpus::TextOptions& text,
                 const corpus::RecordSink& sink) {
  for (const auto& each : kClasses)
    corpus::read_lines((fs::path(path) / each.folder).string(), text,
                       {.unit = corpus::LinesUnit::file}, [&](corpus::Record&& record) {
                         record.label = each.name;
                         sink(std::move(record));
                       });
}

void read_reviews(const std::string& path, const corpus::TextOptions& text,
                  const corpus::RecordSink& sink) {
  if (fs::is_directory(path)) return read_folder(path, text, sink);
  corpus::TableOptions columns = {.format = corpus::TableFormat::tsv, .text = "text"};
  for (const auto& each : kClasses) {
    columns.classes.emplace_back(each.name);
    columns.label_map[each.number] = Node::string(each.name);
  }
  corpus::TextFile file(path, text);
  corpus::read_table(file, columns, sink);
}

// What is read of train or test: a table, or the folders of both classes.
std::vector<std::string> parts_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> folders;
  for (const auto& each : kClasses) {
    folders.push_back((fs::path(path) / each.folder).string());
    if (!fs::is_directory(folders.back()))
      throw UserError(Place{folders.back(), 0}, "no such folder",
                      "it should hold reviews, <id>_<rating>.txt");
  }
  return folders;
}

TextCorpus imdb_corpus(const DataConfig& data, const ImdbConfig& config) {
  const auto found = [&](const std::string& split) {
    return published_file("imdb", data.path, {"aclImdb/" + split, split, split + ".tsv"});
  };
  TextFiles files = {.train = found("train"), .test = found("test")};
  if (config.valid == ImdbValid::test) files.valid = files.test;
  TextCorpus corpus = {.classes = {kClasses[0].name, kClasses[1].name}};
  std::vector<std::string> parts;
  for (const auto& split : {files.train, files.test})
    for (auto& part : parts_of(split)) parts.push_back(std::move(part));
  divide(corpus, files, {.valid_fraction = config.valid_fraction, .test_fraction = 0},
         Parting::hash, data.seed, [text = config.text](const std::string& path, const auto& sink) {
           read_reviews(path, text, sink);
         });
  corpus.files = std::move(parts);  // 25,000 texts of a folder have one checksum
  return corpus;
}

}  // namespace

DataSource imdb_data_set() {
  return text_source<ImdbConfig>(
      {.name = "imdb",
       .description = "IMDb: whether a movie review is positive, byte by byte, 2 classes; accuracy",
       .objective = "classification",
       .files = {"aclImdb/train", "aclImdb/test"},
       .recipe = {"{task: imdb, data: {path: ., max_tokens: 1000}, train: {max_steps: 300, "
                  "batch_size: 16, learning_rate: 2e-3}}",
                  "a validation accuracy of 59 %, where each class has 50 %"},
       .origin = {.licence = "for research; cite Maas et al. (ACL 2011); the reviews are by users "
                             "of IMDb",
                  .published = "Andrew Maas, https://ai.stanford.edu/~amaas/data/sentiment, "
                               "aclImdb_v1.tar.gz, 84 MB",
                  .files = {"aclImdb/train/pos, aclImdb/train/neg: 12,500 texts each, 33 MB",
                            "aclImdb/test/pos, aclImdb/test/neg: 12,500 texts each, 33 MB",
                            "or train.tsv, test.tsv: the same as tables, columns label (0, 1) and "
                            "text"}},
       .defaults = "{max_tokens: 4000, tokenizer: {train: bytes}}"},
      imdb_corpus);
}

}  // namespace longbow
