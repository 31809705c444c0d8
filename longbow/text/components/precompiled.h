#pragma once
// The table of character sequences and their replacements that SentencePiece compiles its
// normalisation rules to: a double-array trie over UTF-8, then the replacements.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longbow {

class Charsmap {
 public:
  Charsmap() = default;
  // The bytes of `precompiled_charsmap`; a UserError without a place when they are cut off.
  explicit Charsmap(std::string_view blob);

  struct Match {
    size_t bytes;  // of the text
    std::string_view replacement;
  };
  // What a prefix of the text becomes, if any prefix is in the table.
  std::optional<Match> shortest(std::string_view text) const;

 private:
  std::string_view replacement_at(size_t offset) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a NUL
};

std::string base64_of(std::string_view bytes);
std::string bytes_of_base64(std::string_view text);  // a UserError without a place when it is none

}  // namespace longbow
