// KorNLI (Ham et al., 2020, arXiv:2004.03289): SNLI, MultiNLI and XNLI in Korean.
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

constexpr const char* kValid = "xnli.dev.ko.tsv";

struct KornliConfig {
  std::string train = "";
  double valid_fraction = 0.1;
};
template <class V>
void fields(V& v, KornliConfig& c) {
  v("train", c.train,
    "file of the training split, in data.path; empty: snli_1.0_train.ko.tsv and "
    "multinli.train.ko.tsv");
  v("valid_fraction", c.valid_fraction,
    "of the premises, chosen by a hash of data.seed, for validation where xnli.dev.ko.tsv is the "
    "training file",
    range(0.001, 0.5));
}

TextCorpus kornli_corpus(const DataConfig& data, const KornliConfig& config) {
  const auto file = [&](const std::string& name) {
    return published_file("kornli", data.path, {name});
  };
  const corpus::TableOptions columns = {.format = corpus::TableFormat::tsv,
                                        .text = "sentence1",
                                        .second = "sentence2",
                                        .label = "gold_label",
                                        .classes = {"entailment", "neutral", "contradiction"}};
  const bool is_whole = config.train.empty();
  // Each premise has three hypotheses: one that is trained on is not validated on.
  const corpus::SplitOptions by_premise = {.valid_fraction = config.valid_fraction,
                                           .test_fraction = 0,
                                           .key = corpus::SplitKey::first_text};
  const auto train = file(is_whole ? "snli_1.0_train.ko.tsv" : config.train);
  const bool is_valid = is_packed_or_plain(train, data.path, kValid);
  auto corpus = table_corpus(
      {.train = train, .valid = is_valid ? "" : file(kValid), .test = file("xnli.test.ko.tsv")},
      columns, by_premise, data.seed);
  if (!is_whole) return corpus;
  const auto more = file("multinli.train.ko.tsv");
  corpus.files.push_back(more);
  corpus.train = [=, first = corpus.train](const corpus::RecordSink& sink) {
    first(sink);
    corpus::TextFile second(more);
    corpus::read_table(second, columns, sink);
  };
  return corpus;
}

}  // namespace

DataSource kornli_data_set() {
  return text_source<KornliConfig>(
      {.name = "kornli",
       .description = "KorNLI: whether a Korean sentence follows from another, 3 classes; accuracy",
       .objective = "pairs",
       .files = {"snli_1.0_train.ko.tsv", "multinli.train.ko.tsv", kValid, "xnli.test.ko.tsv"},
       .recipe = {"{task: kornli, data: {path: ., tokenizer: {vocabulary: 8000, lowercase: "
                  "false}, kornli: {train: xnli.dev.ko.tsv}}, train: {max_steps: 300, "
                  "learning_rate: 1e-3}}",
                  "an accuracy of 46 % from xnli.dev alone, where each class has 33 %"},
       .origin = {.licence = "CC BY-SA 4.0",
                  .published = "Kakao Brain, https://github.com/kakaobrain/kor-nlu-datasets, in "
                               "KorNLI",
                  .files = {"snli_1.0_train.ko.tsv: 550,152 pairs, machine-translated",
                            "multinli.train.ko.tsv: 392,702 pairs, machine-translated",
                            "xnli.dev.ko.tsv: 2,490 pairs", "xnli.test.ko.tsv: 5,010 pairs"}}},
      kornli_corpus);
}

}  // namespace longbow
