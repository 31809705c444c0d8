#include "longbow/text/models/word_level.h"

#include "longbow/core/error.h"

namespace longbow {
namespace {

class WordLevel : public TokenModel {
 public:
  WordLevel(std::string unk_token, const std::vector<VocabularyEntry>& entries)
      : unk_token_(std::move(unk_token)),
        vocabulary_(entries),
        unknown_(vocabulary_.id_of(unk_token_)) {}

  void tokenize(std::string_view word, ModelScratch&, std::vector<WordToken>& out) const override {
    auto id = vocabulary_.id_of(word);
    if (id < 0) id = unknown_;
    if (id < 0)
      throw UserError("WordLevel: the unknown token " + quote(unk_token_) +
                      " is not in the vocabulary");
    out.push_back({id, 0, static_cast<uint32_t>(word.size())});
  }

  const TokenVocabulary& vocabulary() const override { return vocabulary_; }

  void write(JsonStream& out) const override {
    out.begin_map();
    out.key("type");
    out.string("WordLevel");
    write_vocabulary(out, vocabulary_);
    out.key("unk_token");
    out.string(unk_token_);
    out.end_map();
  }

 private:
  std::string unk_token_;
  TokenVocabulary vocabulary_;
  int32_t unknown_;
};

}  // namespace

TokenModelPtr make_word_level(std::string unk_token, const std::vector<VocabularyEntry>& entries) {
  return std::make_shared<WordLevel>(std::move(unk_token), entries);
}

}  // namespace longbow
