#include "longbow/text/models/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longbow/core/error.h"
#include "longbow/text/models/token_trie.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

constexpr double kUnknownPenalty = 10;

std::vector<VocabularyEntry> entries_of(const std::vector<UnigramPiece>& pieces) {
  std::vector<VocabularyEntry> entries;
  entries.reserve(pieces.size());
  for (const auto& [piece, score] : pieces) {
    if (!std::isfinite(score))
      throw UserError(fmt::format("Unigram: the score of {} is not finite", quote(piece)));
    entries.emplace_back(piece, static_cast<int32_t>(entries.size()));
  }
  return entries;
}

class Unigram : public TokenModel {
 public:
  Unigram(const UnigramOptions& options, const std::vector<UnigramPiece>& pieces)
      : options_(options), vocabulary_(entries_of(pieces)) {
    if (options.unk_id && *options.unk_id >= pieces.size())
      throw UserError(fmt::format("Unigram: unk_id is {}", *options.unk_id),
                      fmt::format("there are {} pieces", pieces.size()));
    if (options.unk_id) unknown_ = static_cast<int32_t>(*options.unk_id);
    double lowest = 0;
    std::vector<std::pair<std::string_view, int32_t>> tokens;
    for (const auto& [piece, score] : pieces) {
      const auto id = static_cast<int32_t>(scores_.size());
      lowest = scores_.empty() ? score : std::min(lowest, score);
      scores_.push_back(score);
      const bool is_hidden = std::binary_search(options.hidden.begin(), options.hidden.end(), id);
      if (!is_hidden) tokens.emplace_back(piece, id);
    }
    unknown_score_ = lowest - kUnknownPenalty;
    trie_ = TokenTrie(std::move(tokens));
    if (options.byte_fallback) bytes_ = byte_tokens(vocabulary_);
  }

  void tokenize(std::string_view word, ModelScratch& scratch,
                std::vector<WordToken>& out) const override {
    find_best_paths(word, scratch.paths);
    const size_t before = out.size();
    for (auto end = static_cast<int32_t>(word.size()); end > 0;) {
      const auto& path = scratch.paths[static_cast<size_t>(end)];
      const bool joins = path.id == unknown_ && out.size() > before && out.back().id == unknown_;
      if (joins)
        out.back().begin = static_cast<uint32_t>(path.begin);
      else
        out.push_back({path.id, static_cast<uint32_t>(path.begin), static_cast<uint32_t>(end)});
      end = path.begin;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
    if (options_.byte_fallback) fall_back(word, before, out);
  }

  const TokenVocabulary& vocabulary() const override { return vocabulary_; }

  // An unknown token shows the characters that are not known.
  std::string_view text_of(const WordToken& token, std::string_view word) const override {
    if (token.id == unknown_) return word.substr(token.begin, token.end - token.begin);
    return vocabulary_.token_of(token.id);
  }

  void write(JsonStream& out) const override {
    out.begin_map();
    out.key("type");
    out.string("Unigram");
    out.key("unk_id");
    if (options_.unk_id)
      out.integer(static_cast<int64_t>(*options_.unk_id));
    else
      out.null();
    out.key("vocab");
    out.begin_list();
    for (size_t id = 0; id < scores_.size(); ++id) {
      out.begin_list();
      out.string(vocabulary_.token_of(static_cast<int32_t>(id)));
      out.number(scores_[id]);
      out.end_list();
    }
    out.end_list();
    out.key("byte_fallback");
    out.boolean(options_.byte_fallback);
    out.end_map();
  }

 private:
  // Left to right over all beginnings. A path that only ties with the one found before it loses.
  void find_best_paths(std::string_view word, std::vector<ModelScratch::BestPath>& paths) const {
    paths.assign(word.size() + 1, {0, -1, -1});
    for (size_t begin = 0; begin < word.size();) {
      const double so_far = paths[begin].score;
      const size_t character = unicode::bytes_of(unicode::byte_at(word, begin));
      const auto offer = [&](size_t bytes, int32_t id, double score) {
        auto& path = paths[begin + bytes];
        if (path.begin >= 0 && so_far + score <= path.score) return;
        path = {so_far + score, static_cast<int32_t>(begin), id};
      };
      bool has_character = false;
      trie_.each_prefix(word.substr(begin), [&](size_t bytes, int32_t id) {
        offer(bytes, id, scores_[static_cast<size_t>(id)]);
        has_character |= bytes == character;
      });
      if (!has_character) {
        if (unknown_ < 0) throw UserError("Unigram: there is no token for unknown characters");
        offer(character, unknown_, unknown_score_);
      }
      begin += character;
    }
  }

  // Unknown tokens become the tokens of their bytes, where the vocabulary has all of them.
  void fall_back(std::string_view word, size_t from, std::vector<WordToken>& out) const {
    for (size_t i = from; i < out.size(); ++i) {
      const auto token = out[i];
      if (token.id != unknown_) continue;
      const auto text = word.substr(token.begin, token.end - token.begin);
      if (vocabulary_.id_of(text) == unknown_) continue;
      std::vector<WordToken> spelled;
      for (const char c : text)
        spelled.push_back({bytes_[static_cast<unsigned char>(c)], token.begin, token.end});
      if (std::any_of(spelled.begin(), spelled.end(), [](const auto& t) { return t.id < 0; }))
        continue;
      const auto at = out.begin() + static_cast<std::ptrdiff_t>(i);
      out.insert(out.erase(at), spelled.begin(), spelled.end());
      i += spelled.size() - 1;
    }
  }

  UnigramOptions options_;
  TokenVocabulary vocabulary_;
  std::vector<double> scores_;
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
  TokenTrie trie_;
  std::vector<int32_t> bytes_;
};

}  // namespace

TokenModelPtr make_unigram(const UnigramOptions& options, const std::vector<UnigramPiece>& pieces) {
  return std::make_shared<Unigram>(options, pieces);
}

}  // namespace longbow
