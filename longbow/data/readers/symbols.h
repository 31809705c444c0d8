#pragma once
// The text that stands for token ids: plain text where there is a tokenizer, a data set's own
// symbols with blanks between them, or the ids themselves where it has none.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/error.h"

namespace longbow {

class TextCodec;

class Symbols {
 public:
  Symbols() = default;
  // Ids are 1 … vocabulary - 1; 0 is padding and has no text. `names` by id, or empty; an id whose
  // name is empty has none: a model may have more ids than its data.
  Symbols(std::vector<std::string> names, int64_t vocabulary, int64_t unknown = 0,
          std::shared_ptr<const TextCodec> codec = {});
  // What is no symbol has the id `unknown`, or is a UserError at `place` where that is 0. An empty
  // text has no tokens.
  std::vector<int32_t> read(std::string_view text, const Place& place) const;
  std::string text(std::span<const int64_t> ids) const;
  std::string examples() const;                            // "a, b, …", or "the ids 1..9"
  const TextCodec* codec() const { return codec_.get(); }  // null: texts are symbols

 private:
  std::vector<int32_t> read_text(std::string_view text) const;
  int32_t id_of(const std::string& word, size_t number, const Place& place) const;
  std::vector<std::string> names_;
  std::map<std::string, int32_t> ids_;
  int64_t vocabulary_ = 0, unknown_ = 0;
  std::shared_ptr<const TextCodec> codec_;
};

}  // namespace longbow
