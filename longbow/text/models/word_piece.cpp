#include "longbow/text/models/word_piece.h"

#include "longbow/core/error.h"
#include "longbow/text/models/token_trie.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

class WordPiece : public TokenModel {
 public:
  WordPiece(WordPieceOptions options, const std::vector<VocabularyEntry>& entries)
      : options_(std::move(options)),
        vocabulary_(entries),
        unknown_(vocabulary_.id_of(options_.unk_token)) {
    std::vector<std::pair<std::string_view, int32_t>> first, next;
    const auto& prefix = options_.continuing_subword_prefix;
    for (int32_t id = 0; id < vocabulary_.end(); ++id) {
      if (!vocabulary_.has(id)) continue;
      const auto token = vocabulary_.token_of(id);
      first.emplace_back(token, id);
      if (token.starts_with(prefix)) next.emplace_back(token.substr(prefix.size()), id);
    }
    first_ = TokenTrie(std::move(first));
    next_ = TokenTrie(std::move(next));
  }

  void tokenize(std::string_view word, ModelScratch&, std::vector<WordToken>& out) const override {
    const size_t before = out.size();
    const bool is_long = word.size() > options_.max_input_chars_per_word &&
                         unicode::count_characters(word) > options_.max_input_chars_per_word;
    size_t begin = is_long ? word.size() + 1 : 0;
    while (begin < word.size()) {
      size_t bytes = 0;
      int32_t id = -1;
      (begin == 0 ? first_ : next_)
          .each_prefix(word.substr(begin), [&](size_t longer, int32_t token) {
            bytes = longer;
            id = token;
          });
      if (id < 0) break;
      out.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + bytes)});
      begin += bytes;
    }
    if (begin == word.size()) return;
    if (unknown_ < 0)
      throw UserError("WordPiece: the unknown token " + quote(options_.unk_token) +
                      " is not in the vocabulary");
    out.resize(before);
    out.push_back({unknown_, 0, static_cast<uint32_t>(word.size())});
  }

  const TokenVocabulary& vocabulary() const override { return vocabulary_; }

  WordAffixes affixes() const override { return {options_.continuing_subword_prefix, ""}; }

  void write(JsonStream& out) const override {
    out.begin_map();
    out.key("type");
    out.string("WordPiece");
    out.key("unk_token");
    out.string(options_.unk_token);
    out.key("continuing_subword_prefix");
    out.string(options_.continuing_subword_prefix);
    out.key("max_input_chars_per_word");
    out.integer(static_cast<int64_t>(options_.max_input_chars_per_word));
    write_vocabulary(out, vocabulary_);
    out.end_map();
  }

 private:
  WordPieceOptions options_;
  TokenVocabulary vocabulary_;
  int32_t unknown_;
  TokenTrie first_, next_;  // next_ has the tokens that continue a word, without their prefix
};

}  // namespace

TokenModelPtr make_word_piece(WordPieceOptions options,
                              const std::vector<VocabularyEntry>& entries) {
  return std::make_shared<WordPiece>(std::move(options), entries);
}

}  // namespace longbow
