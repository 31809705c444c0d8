// Your own questions about texts that hold their answers, as SQuAD has them.
#include "longbow/corpus/readers/questions.h"

#include <filesystem>

#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct QuestionsConfig {
  TextFiles files = {.train = "train.json"};
  corpus::SplitOptions fractions = {.key = corpus::SplitKey::group};
  corpus::QuestionOptions questions = {};
  corpus::TextOptions text = {};
};
template <class V>
void fields(V& v, QuestionsConfig& c) {
  v("train", c.files.train, "file of the training split, in data.path; plain, .gz or .xz");
  v("valid", c.files.valid, "file of the validation split; empty: a fraction of the articles");
  v("test", c.files.test, "file of the test split; empty: a fraction of the articles");
  fields(v, c.questions);
  fields(v, c.fractions);
  fields(v, c.text);
}

void check(const QuestionsConfig& config) {
  check_fractions(config.files, config.fractions);
}

Node data_for(const std::string& file) {
  const std::filesystem::path path(file);
  return Node::map({{"path", folder_of(path)},
                    {"questions", Node::map({{"train", Node::string(path.filename().string())}})}});
}

}  // namespace

DataSource questions_data_set() {
  return text_source<QuestionsConfig>(
      {.name = "questions",
       .description = "your own questions about texts that hold their answers (SQuAD's JSON)",
       .objective = "span",
       .data_for = data_for,
       .recipe = {"{task: questions, data: {path: ., max_tokens: 384, questions: {train: "
                  "train.json}}, model: {max_length: 512}}",
                  "what your data allows"}},
      [](const DataConfig& data, const QuestionsConfig& config) {
        TextCorpus corpus = {.role = TextRole::questions, .pairs = true};
        read_from(corpus, files_in(data.path, config.files), config.fractions, Parting::hash,
                  data.seed, [config](const std::string& path, const corpus::RecordSink& sink) {
                    corpus::TextFile file(path, config.text);
                    corpus::read_questions(file, config.questions, sink);
                  });
        return corpus;
      },
      check);
}

}  // namespace longbow
