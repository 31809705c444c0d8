#pragma once
// Texts as the token ids of a model, and back. They are a tokenizer's ids, moved up by one where
// its id 0 is a token and not padding.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/text/tokenizer/token_traits.h"
#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

class TextCodec {
 public:
  explicit TextCodec(Tokenizer tokenizer);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t vocabulary() const { return static_cast<int64_t>(tokenizer_.size()) + shift_; }
  bool shifted() const { return shift_ > 0; }  // ids are one higher than the tokenizer's
  // Appends the ids of a text, without special tokens.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;
  // The bytes of the text that each of its tokens came from.
  std::vector<TokenOffsets> offsets(std::string_view text) const;
  std::string decode(std::span<const int64_t> ids) const;
  // The id of the first of these tokens that there is, or 0.
  int64_t find(std::initializer_list<const char*> tokens) const;
  std::vector<std::string> symbols() const;  // by id; the first is that of padding
  std::vector<TokenTraits> traits() const;   // by id; padding is special

 private:
  Tokenizer tokenizer_;
  int32_t shift_;
};

}  // namespace longbow
