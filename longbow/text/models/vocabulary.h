#pragma once
// Tokens and their ids, both ways. The texts lie in one block; a table of slots finds them by hash.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longbow {

using VocabularyEntry = std::pair<std::string, int32_t>;

class TokenVocabulary {
 public:
  TokenVocabulary() = default;
  // UserError without a place: a token or an id that is there twice, a negative id, an id far above
  // the number of entries.
  explicit TokenVocabulary(const std::vector<VocabularyEntry>& entries);

  int32_t id_of(std::string_view token) const;  // -1 when unknown
  bool has(int32_t id) const;
  std::string_view token_of(int32_t id) const;                          // empty when unknown
  size_t size() const { return count_; }                                // entries
  int32_t end() const { return static_cast<int32_t>(places_.size()); }  // above the largest id

 private:
  struct TokenPlace {
    uint32_t begin = 0;
    int32_t bytes = -1;  // -1: no token has this id
  };
  size_t slot_of(std::string_view token) const;

  std::string texts_;
  std::vector<TokenPlace> places_;  // by id
  std::vector<int32_t> slots_;      // ids or -1; a power of two of them
  size_t count_ = 0;
};

}  // namespace longbow
