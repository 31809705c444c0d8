// Your own translations: two files line by line, or two columns of a table.
#include "longbow/corpus/readers/parallel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>

#include "longbow/data/encoding/published.h"
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

void check(const ParallelConfig& config) {
  require_option(!config.source.empty(), "source", "is empty", "name the ending or the column");
  require_option(!config.target.empty(), "target", "is empty", "name the ending or the column");
  check_fractions(config.files, config.fractions);
  corpus::check_parallel_options(config.pairs);
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

TextCorpus corpus_of_pairs(const DataConfig& data, const ParallelConfig& config) {
  TextCorpus corpus = {.role = TextRole::translation, .shared = config.shared};
  const auto stem = [&](const std::string& name) {
    return name.empty() ? name : (std::filesystem::path(data.path) / name).string();
  };
  const auto& files = config.files;
  divide(corpus, {stem(files.train), stem(files.valid), stem(files.test)}, config.fractions,
         Parting::hash, data.seed,
         [config](const std::string& path, const corpus::RecordSink& sink) {
           read_pairs(path, config, sink);
         });
  for (const auto& name : {files.train, files.valid, files.test})
    for (const auto& ending : {config.source, config.target})
      if (!name.empty()) corpus.files.push_back(packed_or_plain(data.path, name + "." + ending));
  return corpus;
}

TextCorpus corpus_of_tables(const DataConfig& data, const ParallelConfig& config) {
  TextCorpus corpus = {.role = TextRole::translation, .shared = config.shared};
  auto columns = config.columns;
  columns.text = config.source;
  columns.second = config.target;
  read_from(corpus, files_in(data.path, config.files), config.fractions, Parting::hash, data.seed,
            [config, columns](const std::string& path, const corpus::RecordSink& sink) {
              corpus::TextFile table(path, config.text);
              corpus::read_parallel(table, columns, config.pairs, sink);
            });
  return corpus;
}

TextCorpus parallel_corpus(const DataConfig& data, const ParallelConfig& config) {
  const auto named = find_packed_or_plain(data.path, config.files.train);
  const bool is_table = config.table || (named && std::filesystem::is_regular_file(*named));
  return is_table ? corpus_of_tables(data, config) : corpus_of_pairs(data, config);
}

// "train" and "en" of train.en and of train.en.gz.
struct SplitName {
  std::string stem, ending;
};
SplitName split_name(const std::filesystem::path& file) {
  auto name = file.filename();
  if (name.extension() == ".gz" || name.extension() == ".xz") name = name.stem();
  const auto ending = name.extension().string();
  return {name.stem().string(), ending.empty() ? ending : ending.substr(1)};
}

constexpr std::array<std::string_view, 5> kNoTexts = {"yaml", "yml", "json", "jsonl", "log"};

// The endings of the other files beside it that have its name and may hold its translation.
std::set<std::string> endings_beside(const std::filesystem::path& file) {
  const auto own = split_name(file);
  const auto folder = file.parent_path().empty() ? std::filesystem::path(".") : file.parent_path();
  std::set<std::string> endings;
  std::error_code unknown;
  for (const auto& other : std::filesystem::directory_iterator(folder, unknown)) {
    const auto [stem, ending] = split_name(other.path());
    const bool is_text = stem == own.stem && ending != own.ending && !ending.empty() &&
                         std::ranges::find(kNoTexts, ending) == kNoTexts.end();
    if (is_text && other.is_regular_file(unknown) && other.file_size(unknown) > 0)
      endings.insert(ending);
  }
  return endings;
}

// train.en: the sources, and beside it a file of the same name with another ending.
Node data_for(const std::string& file) {
  const auto [stem, source] = split_name(file);
  const auto targets = endings_beside(file);
  if (source.empty() || targets.empty())
    throw UserError(Place{file, 0}, "there is no file beside it with another ending",
                    "name the sources, as train.en beside train.de");
  if (targets.size() > 1)
    throw UserError(Place{file, 0},
                    fmt::format("there are {} files beside it with another ending: {}",
                                targets.size(), fmt::join(targets, ", ")),
                    "write a config by hand: longbow init parallel");
  return Node::map({{"path", folder_of(file)},
                    {"parallel", Node::map({{"train", Node::string(stem)},
                                            {"source", Node::string(source)},
                                            {"target", Node::string(*targets.begin())}})}});
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
      parallel_corpus, check);
}

}  // namespace longbow
