// KorQuAD 1.0 (Lim et al., 2019, arXiv:1909.07005): questions about Korean Wikipedia.
#include "longbow/corpus/readers/questions.h"

#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

constexpr const char* kDev = "KorQuAD_v1.0_dev.json";

struct KorquadConfig {
  std::string train = "KorQuAD_v1.0_train.json";
  double valid_fraction = 0.05, test_fraction = 0.1;
};
template <class V>
void fields(V& v, KorquadConfig& c) {
  v("train", c.train, "file of the training split, in data.path; plain, .gz or .xz");
  v("valid_fraction", c.valid_fraction,
    "of the articles of that file, chosen by a hash of data.seed, for validation",
    range(0.001, 0.5));
  v("test_fraction", c.test_fraction,
    "the same for the test, where KorQuAD_v1.0_dev.json is the training file; else the test split "
    "is that file",
    range(0.001, 0.4));
}

}  // namespace

DataSource korquad_data_set() {
  return text_source<KorquadConfig>(
      {.name = "korquad",
       .description = "KorQuAD 1.0: where a Korean paragraph answers a question; exact match and "
                      "F1",
       .objective = "span",
       .files = {"KorQuAD_v1.0_train.json", kDev},
       .recipe = {"{task: korquad, data: {path: ., max_tokens: 256, tokenizer: "
                  "{vocabulary: 8000, lowercase: false}, korquad: {train: "
                  "KorQuAD_v1.0_dev.json}}, model: {max_span: 16, answers: korquad}, train: "
                  "{max_steps: 200, "
                  "batch_size: 16, learning_rate: 1e-3}}",
                  "an exact match of 0.7 %: next to nothing, from the dev file alone"},
       .origin = {.licence = "CC BY-ND 2.0 KR",
                  .published = "LG CNS, https://korquad.github.io/KorQuad%201.0/",
                  .files = {"KorQuAD_v1.0_train.json: 60,407 questions",
                            "KorQuAD_v1.0_dev.json: 5,774 questions, the test split"}}},
      [](const DataConfig& data, const KorquadConfig& config) {
        TextCorpus corpus = {.role = TextRole::questions, .pairs = true};
        const auto file = [&](const std::string& name) {
          return published_file("korquad", data.path, {name});
        };
        const auto train = file(config.train);
        const bool is_dev = is_packed_or_plain(train, data.path, kDev);
        read_from(corpus, {.train = train, .test = is_dev ? "" : file(kDev)},
                  {.valid_fraction = config.valid_fraction,
                   .test_fraction = config.test_fraction,
                   .key = corpus::SplitKey::group},
                  Parting::hash, data.seed,
                  [](const std::string& path, const corpus::RecordSink& sink) {
                    corpus::TextFile questions(path);
                    corpus::read_questions(questions, {}, sink);
                  });
        return corpus;
      });
}

}  // namespace longbow
