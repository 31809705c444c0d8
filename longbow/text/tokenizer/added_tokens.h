#pragma once
// Tokens that are found in a text before the model sees it: special ones and others that users add.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "longbow/text/components/normalizer.h"
#include "longbow/text/models/token_trie.h"

namespace longbow {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only between characters that are no part of a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for in the normalized text
  bool special = false;      // may be left out when decoding
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const std::vector<AddedToken>& list() const { return tokens_; }  // in the order of ids
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  bool is_special(std::string_view content) const;
  // What decoding sees: the normalized content where the token is looked for as that.
  const std::string& decoded_text(const AddedToken& token) const;

  enum class Stage { original, normalized };
  bool has_any(Stage stage) const { return !sets_[static_cast<size_t>(stage)].is_empty; }
  // Calls take(begin, end, id) for stretches that cover the text, which is well-formed UTF-8, with
  // id -1 between tokens. Special tokens may be read as plain text.
  template <class Take>
  void each_stretch(std::string_view text, Stage stage, bool with_special, const Take& take) const {
    size_t from = 0;
    for (size_t at = 0; at < text.size();) {
      const auto match = next_match(text, at, from, {stage, with_special});
      if (match.id < 0) break;
      if (from < match.begin) take(from, match.begin, -1);
      take(match.begin, match.end, match.id);
      at = from = match.end;
    }
    if (from < text.size()) take(from, text.size(), -1);
  }

 private:
  struct Found {
    size_t begin = 0, end = 0;
    int32_t id = -1;
  };
  struct PatternSet {
    TokenTrie trie;
    std::array<bool, 256> first_bytes{};
    bool is_empty = true;
  };
  // The leftmost and longest token from `at` on; spaces are taken back to `from` only.
  struct Search {
    Stage stage;
    bool with_special;
  };
  Found next_match(std::string_view text, size_t at, size_t from, Search search) const;
  Found with_spaces(std::string_view text, Found found, size_t from) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string_view, size_t> by_content_;
  std::vector<std::string> decoded_;
  PatternSet sets_[2];
};

}  // namespace longbow
