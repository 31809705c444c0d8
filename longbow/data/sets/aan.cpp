// Pairs of papers of the ACL Anthology, byte by byte: the retrieval task of the Long Range Arena.
#include <map>
#include <memory>

#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct AanConfig {
  corpus::TextOptions text = {.malformed = corpus::Malformed::replace};
};
template <class V>
void fields(V& v, AanConfig& c) {
  fields(v, c.text);
}

corpus::TableOptions with_classes(corpus::TableOptions columns) {
  columns.format = corpus::TableFormat::tsv;
  columns.quotes = corpus::Quotes::none;
  columns.classes = {"unrelated", "cites"};
  columns.label_map = Node::map({{"0", Node::string("unrelated")},
                                 {"0.0", Node::string("unrelated")},
                                 {"1", Node::string("cites")},
                                 {"1.0", Node::string("cites")}});
  return columns;
}

// The texts of papers by their ids, read when the first pair is.
class Papers {
 public:
  Papers(std::string path, const corpus::TextOptions& text) : path_(std::move(path)), text_(text) {}

  const std::string& find(const std::string& id, const Place& place) {
    if (texts_.empty()) texts_ = read();
    if (const auto found = texts_.find(id); found != texts_.end()) return found->second;
    throw UserError(place, "paper " + quote(id) + " is not in " + path_,
                    "the files do not belong together");
  }

 private:
  using Texts = std::map<std::string, std::string>;
  Texts read() const {
    Texts texts;
    corpus::TextFile file(path_, text_);
    const corpus::TableOptions columns = {
        .format = corpus::TableFormat::tsv, .text = "text", .label = "", .id = "id"};
    corpus::read_table(file, columns, [&](corpus::Record&& record) {
      if (!texts.emplace(record.id, std::move(record.texts.at(0))).second)
        throw UserError(record.place(), "paper " + quote(record.id) + " occurs twice");
    });
    return texts;
  }
  std::string path_;
  corpus::TextOptions text_;
  Texts texts_;
};

// Pairs of ids, and the papers in a file of their own.
TextCorpus papers_corpus(const DataConfig& data, const AanConfig& config, const std::string& all) {
  const auto file = [&](const std::string& split) {
    return published_file("aan", data.path, {"pairs_" + split + ".tsv"});
  };
  const auto papers = std::make_shared<Papers>(all, config.text);
  const auto columns = with_classes({.text = "id1", .second = "id2"});
  auto corpus =
      table_corpus({file("train"), file("dev"), file("test")}, columns, {}, data.seed, config.text);
  for (auto* read : {&corpus.train, &corpus.valid, &corpus.test})
    *read = [papers, ids = *read](const corpus::RecordSink& sink) {
      ids([&](corpus::Record&& record) {
        for (auto& text : record.texts) text = papers->find(text, record.place());
        sink(std::move(record));
      });
    };
  corpus.files.push_back(all);
  return corpus;
}

TextCorpus aan_corpus(const DataConfig& data, const AanConfig& config) {
  if (const auto papers = find_packed_or_plain(data.path, "papers.tsv"))
    return papers_corpus(data, config, *papers);
  const auto file = [&](const std::string& split) {
    return published_file("aan", data.path, {"new_aan_pairs." + split + ".tsv"});
  };
  // Label, two ids and two texts, without a header.
  return table_corpus({file("train"), file("eval"), file("test")},
                      with_classes({.header = false, .text = "4", .second = "5", .label = "1"}), {},
                      data.seed, config.text);
}

}  // namespace

DataSource aan_data_set() {
  return text_source<AanConfig>(
      {.name = "aan",
       .description = "AAN: whether one paper cites the other, byte by byte, 2 classes; accuracy",
       .objective = "pairs",
       .files = {"new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"},
       .recipe = {"{task: aan, data: {path: ., max_tokens: 500}, model: {head: 64}, "
                  "train: {max_steps: 300, batch_size: 16}}",
                  "the loss of guessing, 0.7; papers by bytes take thousands of steps"},
       .origin = {.licence = "papers of the ACL Anthology: CC BY-NC-SA 3.0, from 2016 on CC BY 4.0",
                  .published = "Long Range Arena, "
                               "https://github.com/google-research/long-range-arena, "
                               "lra_release.gz, 7.7 GB, in lra_release/lra_release/tsv_data",
                  .files = {"new_aan_pairs.train.tsv: 147,086 pairs",
                            "new_aan_pairs.eval.tsv: 18,090 pairs",
                            "new_aan_pairs.test.tsv: 17,437 pairs",
                            "or papers.tsv with columns id and text, and pairs_train.tsv, "
                            "pairs_dev.tsv, pairs_test.tsv with columns label (0, 1), id1 and "
                            "id2"}},
       .defaults = "{max_tokens: 4000, tokenizer: {train: bytes}}"},
      aan_corpus);
}

}  // namespace longbow
