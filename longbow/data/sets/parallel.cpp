// Your own translations: two files line by line, or two columns of a table.
#include "longbow/corpus/readers/parallel.h"

#include <filesystem>

#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct ParallelConfig {
  TextFiles files = {.train = "train"};
  std::string source = "en", target = "de";
  bool shared = true;
  corpus::SplitOptions fractions = {.key = corpus::SplitKey::first_text};
  corpus::ParallelOptions pairs = {};
  corpus::TableOptions columns = {.text = "source", .second = "target", .label = ""};
  corpus::TextOptions text = {};
  bool table = false;
};
template <class V>
void fields(V& v, ParallelConfig& c) {
  v("train", c.files.train,
    "files of the training split, in data.path, without their endings; or a table");
  v("valid", c.files.valid,
    "the same for the validation split; empty: a fraction of the training pairs");
  v("test", c.files.test, "the same for the test split; empty: a fraction of the training pairs");
  v("source", c.source, "ending of the file with the sources; of a table the column");
  v("target", c.target, "ending of the file with the targets; of a table the column");
  v("table", c.table,
    "each split is one table (CSV, TSV, JSON), not two files; so is a file that `train` names as "
    "it is");
  v("shared", c.shared, "one tokenizer for both sides; false: one for each");
  v("format", c.columns.format, "of a table: by its name, or one of these");
  v("separator", c.columns.separator, "of a table, between columns");
  v("quotes", c.columns.quotes, "of a table, whether fields may be in double quotes");
  v("header", c.columns.header,
    "of a table: the first line names the columns, else they are 1, 2, 3, …");
  fields(v, c.pairs);
  fields(v, c.fractions);
  fields(v, c.text);
}

// The two files of a split have one name in common and an ending each.
void read_pairs(const std::string& stem, const ParallelConfig& config,
                const corpus::RecordSink& sink) {
  const std::filesystem::path path(stem);
  const auto open = [&](const std::string& ending) {
    const auto name = path.filename().string() + "." + ending;
    return corpus::TextFile(packed_or_plain(path.parent_path().string(), name), config.text);
  };
  auto source = open(config.source), target = open(config.target);
  corpus::read_parallel(source, target, config.pairs, sink);
}

// train.en: the sources, and beside it a file of the same name with another ending.
Node data_for(const std::string& file) {
  const std::filesystem::path path(file);
  const auto stem = path.stem().string(), source = path.extension().string();
  const auto folder = path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path();
  std::string target;
  for (const auto& other : std::filesystem::directory_iterator(folder))
    if (other.path().stem() == stem && other.path().extension() != source)
      target = other.path().extension().string();
  if (source.size() < 2 || target.size() < 2)
    throw UserError(Place{file, 0}, "there is no file beside it with another ending",
                    "name the sources, as train.en beside train.de");
  return Node::map({{"path", folder_of(path)},
                    {"parallel", Node::map({{"train", Node::string(stem)},
                                            {"source", Node::string(source.substr(1))},
                                            {"target", Node::string(target.substr(1))}})}});
}

}  // namespace

DataSource parallel_data_set() {
  return text_source<ParallelConfig>(
      {.name = "parallel",
       .description = "your own translations: two files line by line, or two columns of a table",
       .objective = "translation",
       .data_for = data_for,
       .recipe = {"{task: parallel, data: {path: ., tokenizer: {train: bpe, vocabulary: 8000}, "
                  "parallel: {train: train, source: en, target: de}}}",
                  "what your data allows"}},
      [](const DataConfig& data, const ParallelConfig& config) {
        TextCorpus corpus = {.role = TextRole::translation, .shared = config.shared};
        const auto named = std::filesystem::path(data.path) / config.files.train;
        if (config.table || std::filesystem::is_regular_file(named)) {
          auto columns = config.columns;
          columns.text = config.source;
          columns.second = config.target;
          read_from(corpus, files_in(data.path, config.files), config.fractions, Parting::hash,
                    data.seed,
                    [config, columns](const std::string& path, const corpus::RecordSink& sink) {
                      corpus::TextFile table(path, config.text);
                      corpus::read_parallel(table, columns, config.pairs, sink);
                    });
          return corpus;
        }
        const auto stem = [&](const std::string& name) {
          return name.empty() ? name : (std::filesystem::path(data.path) / name).string();
        };
        const TextFiles stems = {stem(config.files.train), stem(config.files.valid),
                                 stem(config.files.test)};
        read_from(corpus, stems, config.fractions, Parting::hash, data.seed,
                  [config](const std::string& path, const corpus::RecordSink& sink) {
                    read_pairs(path, config, sink);
                  });
        corpus.files.clear();
        for (const auto& name : {config.files.train, config.files.valid, config.files.test})
          for (const auto& ending : {config.source, config.target})
            if (!name.empty())
              corpus.files.push_back(packed_or_plain(data.path, name + "." + ending));
        return corpus;
      });
}

}  // namespace longbow
