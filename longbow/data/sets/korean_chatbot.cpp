// Questions to a Korean chatbot, its answers, and what they are about.
#include "longbow/corpus/readers/parallel.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/tables.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

enum class ChatbotUse { answers, classes };
constexpr std::array<std::string_view, 2> names_of(ChatbotUse) {
  return {"answers", "classes"};
}

struct ChatbotConfig {
  ChatbotUse use = ChatbotUse::answers;
  double valid_fraction = 0.05, test_fraction = 0.05;
  // A question may have several answers.
  corpus::SplitOptions split() const {
    return {valid_fraction, test_fraction, corpus::SplitKey::first_text};
  }
};
template <class V>
void fields(V& v, ChatbotConfig& c) {
  v("use", c.use,
    "what a question is given with: its answer, for translation, or its class, for classification");
  v("valid_fraction", c.valid_fraction,
    "of the questions, chosen by a hash of data.seed, for validation", range(0.001, 0.4));
  v("test_fraction", c.test_fraction, "the same for the test", range(0.001, 0.4));
}

TextCorpus answers_in(const std::string& path, const ChatbotConfig& config, uint64_t seed) {
  TextCorpus corpus = {.role = TextRole::translation};
  read_from(corpus, {.train = path}, config.split(), Parting::hash, seed,
            [](const std::string& file, const corpus::RecordSink& sink) {
              corpus::TextFile table(file);
              corpus::read_parallel(
                  table, {.format = corpus::TableFormat::csv, .text = "Q", .second = "A"}, {},
                  sink);
            });
  return corpus;
}

TextCorpus classes_in(const std::string& path, const ChatbotConfig& config, uint64_t seed) {
  const corpus::TableOptions columns = {.format = corpus::TableFormat::csv,
                                        .text = "Q",
                                        .label = "label",
                                        .classes = {"everyday", "parting", "love"},
                                        .label_map = Node::map({{"0", Node::string("everyday")},
                                                                {"1", Node::string("parting")},
                                                                {"2", Node::string("love")}})};
  return table_corpus({.train = path}, columns, config.split(), seed);
}

}  // namespace

DataSource korean_chatbot_data_set() {
  return text_source<ChatbotConfig>(
      {.name = "korean_chatbot",
       .description =
           "Korean chatbot: the answer to a question, perplexity; or its class, accuracy",
       .objective = "translation",
       .objective_for =
           [](const Node& options) {
             const auto config = read<ChatbotConfig>(options, "data.korean_chatbot");
             return config.use == ChatbotUse::answers ? "translation" : "classification";
           },
       .files = {"ChatbotData.csv"},
       .recipe = {"{task: korean_chatbot, data: {path: ., tokenizer: {vocabulary: 4000, "
                  "lowercase: false}}, train: {max_steps: 300, learning_rate: 2e-3}}",
                  "a perplexity of 177 over 4,000 tokens"},
       .origin = {.licence = "MIT",
                  .published = "Youngsook Song, https://github.com/songys/Chatbot_data",
                  .files = {"ChatbotData.csv or 'ChatbotData .csv': 11,823 questions and "
                            "answers"}}},
      [](const DataConfig& data, const ChatbotConfig& config) {
        const auto path =
            published_file("korean_chatbot", data.path, {"ChatbotData.csv", "ChatbotData .csv"});
        return config.use == ChatbotUse::answers ? answers_in(path, config, data.seed)
                                                 : classes_in(path, config, data.seed);
      });
}

}  // namespace longbow
