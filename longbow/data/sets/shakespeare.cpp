// Tiny Shakespeare: one text, character by character, line breaks included.
#include <algorithm>

#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/text_data.h"

namespace longbow {
namespace {

struct ShakespeareConfig {
  double valid_fraction = 0.05, test_fraction = 0.05;
  int64_t length = 256;
};
template <class V>
void fields(V& v, ShakespeareConfig& c) {
  v("valid_fraction", c.valid_fraction, "of the text, behind the training part", range(0.001, 0.4));
  v("test_fraction", c.test_fraction, "of the text, at its end", range(0.001, 0.4));
  v("length", c.length, "tokens of a sample", range(2, 1e6));
}

TextCorpus::Read part_of(const std::string& path, const corpus::SplitOptions& fractions,
                         corpus::Side side) {
  return [=](const corpus::RecordSink& sink) {
    corpus::TextFile file(path);
    const auto text = file.read_all();
    const corpus::OrderedSplit split(fractions, std::ssize(text));
    const auto part = split.cut(text)[static_cast<size_t>(side)];
    corpus::Record record;
    record.texts = {std::string(part)};
    record.file = file.shared_name();
    record.line = 1 + std::count(text.data(), part.data(), '\n');
    sink(std::move(record));
  };
}

}  // namespace

DataSource shakespeare_data_set() {
  return text_source<ShakespeareConfig>(
      {.name = "shakespeare",
       .description = "Tiny Shakespeare: plays as one text, by characters; perplexity",
       .objective = "causal_lm",
       .files = {"input.txt"},
       .recipe = {"{task: shakespeare, data: {path: ., tokenizer: {train: characters}, "
                  "shakespeare: {length: 128}}, train: {max_steps: 300, learning_rate: "
                  "3e-3}}",
                  "a perplexity of 12.2 over 65 characters"},
       .origin = {.licence = "public domain",
                  .published = "Andrej Karpathy, https://github.com/karpathy/char-rnn, in "
                               "data/tinyshakespeare",
                  .files = {"input.txt: 1,115,394 characters"}}},
      [](const DataConfig& data, const ShakespeareConfig& config) {
        const auto path = published_file("shakespeare", data.path, {"input.txt"});
        const corpus::SplitOptions fractions = {config.valid_fraction, config.test_fraction};
        return TextCorpus{.train = part_of(path, fractions, corpus::Side::train),
                          .valid = part_of(path, fractions, corpus::Side::valid),
                          .test = part_of(path, fractions, corpus::Side::test),
                          .files = {path},
                          .role = TextRole::language,
                          .windows = {.length = config.length}};
      });
}

}  // namespace longbow
