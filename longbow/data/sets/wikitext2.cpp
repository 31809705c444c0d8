// WikiText-2 (Merity et al., 2016, arXiv:1609.07843): Wikipedia articles, word by word. Its files
// are tokens already, with blanks between them; published perplexities are over these tokens and
// one for the end of each line.
#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/corpus/readers/lines.h"
#include "longbow/data/encoding/cache.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/encoding/pulled_texts.h"
#include "longbow/data/encoding/text_data.h"
#include "longbow/text/components/component.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/formats/tokenizer_json.h"
#include "longbow/text/models/word_level.h"
#include "longbow/text/trainers/word_level_trainer.h"

namespace longbow {
namespace {

enum class WikitextTokens { published, tokenizer };
constexpr std::array<std::string_view, 2> names_of(WikitextTokens) {
  return {"published", "tokenizer"};
}

struct Wikitext2Config {
  WikitextTokens tokens = WikitextTokens::published;
  int64_t length = 128;
};
template <class V>
void fields(V& v, Wikitext2Config& c) {
  v("tokens", c.tokens,
    "published: those that the files separate by blanks, and <eos> behind each line; tokenizer: "
    "those of data.tokenizer");
  v("length", c.length, "tokens of a sample", range(2, 1e6));
}

TextCorpus wikitext_corpus(const std::string& folder, const Wikitext2Config& config) {
  TextCorpus corpus = {
      .role = TextRole::language, .windows = {.length = config.length}, .keep_lines = true};
  const auto file = [&](const std::string& part) {
    return published_file("wikitext2", folder, {"wiki." + part + ".tokens", part + ".txt"});
  };
  // Empty lines count: each has its <eos>.
  read_from(corpus, {file("train"), file("valid"), file("test")}, {}, Parting::order, 0,
            [](const std::string& path, const corpus::RecordSink& sink) {
              corpus::TextFile text(path);
              corpus::read_lines(text, {.keep_blank = true}, sink);
            });
  return corpus;
}

// Every word of the training file is a token. <unk> is a word of the files, and no added token,
// which would be found inside other words too.
Tokenizer published_tokens(const TextCorpus& corpus) {
  PulledTexts texts(corpus.train, {0});
  TokenizerParts parts;
  parts.pre_tokenizer = read_pre_tokenizer(component_node("WhitespaceSplit"));
  const auto words = count_words([&](std::string& text) { return texts.next(text); },
                                 split_by(nullptr, parts.pre_tokenizer));
  std::vector<VocabularyEntry> entries;
  const auto room = std::ssize(words) + 2;
  for (auto& token :
       train_word_level(words, {.vocabulary = room, .special_tokens = {"<unk>", "<eos>"}}))
    entries.emplace_back(std::move(token), static_cast<int32_t>(entries.size()));
  parts.model = make_word_level("<unk>", entries);
  return Tokenizer(std::move(parts));
}

// As a file beside the cache, because data.tokenizer is one.
std::string tokenizer_file(const DataConfig& data, const TextCorpus& corpus) {
  const auto name = "wikitext2-words-" + sha256_of_file(corpus.files.front()).substr(0, 24);
  const auto folder = std::filesystem::path(cache_folder(data.cache));
  const auto path = (folder / (name + ".json")).string();
  if (std::filesystem::exists(path)) return path;
  make_folder(folder.string());
  write_file(path, tokenizer_json(published_tokens(corpus)));
  return path;
}

Splits load(const DataConfig& data, const Wikitext2Config& config) {
  const auto corpus = wikitext_corpus(data.path, config);
  auto own = data;
  if (config.tokens == WikitextTokens::published) {
    if (written(data.tokenizer) != written(TokenizerConfig{}))
      throw UserError("data.tokenizer is not read where data.wikitext2.tokens is published",
                      "set data.wikitext2.tokens to tokenizer, or leave data.tokenizer out");
    own.tokenizer.file = tokenizer_file(data, corpus);
  }
  return encode_corpus(own, written(config), corpus);
}

}  // namespace

DataSource wikitext2_data_set() {
  return data_source<Wikitext2Config>(
      {.name = "wikitext2",
       .description = "WikiText-2: Wikipedia articles, 33,278 words; perplexity",
       .objective = "causal_lm",
       .files = {"wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"},
       .recipe = {"{task: wikitext2, data: {path: ., wikitext2: {length: 64}}, model: "
                  "{width: 32, heads: 4, tied: true}, train: {max_steps: 150, batch_size: "
                  "16, learning_rate: 3e-3, evaluate_every: 0}}",
                  "a perplexity of 953 over 33,278 words"},
       .origin = {.licence = "CC BY-SA 3.0",
                  .published = "Salesforce Research, wikitext-2-v1.zip, "
                               "https://huggingface.co/datasets/Salesforce/wikitext",
                  .files = {"wiki.train.tokens or train.txt: 2,088,628 tokens",
                            "wiki.valid.tokens or valid.txt: 217,646 tokens",
                            "wiki.test.tokens or test.txt: 245,569 tokens"}}},
      load, nullptr);
}

}  // namespace longbow
