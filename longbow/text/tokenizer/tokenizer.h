#pragma once
// Text to tokens and back, as Hugging Face's tokenizers do it: added tokens are found, the rest is
// normalized and split into words, a model makes tokens of each word, a post-processor adds special
// tokens. A tokenizer never changes and may be used by many threads at once.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/text/components/decoder.h"
#include "longbow/text/components/encoding.h"
#include "longbow/text/components/normalizer.h"
#include "longbow/text/components/post_processor.h"
#include "longbow/text/components/pre_tokenizer.h"
#include "longbow/text/models/model.h"
#include "longbow/text/tokenizer/added_tokens.h"
#include "longbow/text/tokenizer/shorten.h"

namespace longbow {

struct EncodeOptions {
  bool add_special_tokens = true;
  enum class OffsetUnit { code_points, bytes } offsets = OffsetUnit::code_points;
  // Whether "[SEP]" in a text is the special token. Texts of strangers are better read as plain.
  enum class SpecialText { token, plain } special_text = SpecialText::token;
  // In place of what the tokenizer's file says.
  std::optional<Truncation> truncation;
  std::optional<TokenPadding> padding;
  bool use_file_settings = true;  // false: no truncation and no padding but the above
};

// What a tokenizer is made of. Only a model is needed.
struct TokenizerParts {
  NormalizerPtr normalizer;
  PreTokenizerPtr pre_tokenizer;
  TokenModelPtr model;
  PostProcessorPtr post_processor;
  TokenDecoderPtr decoder;
  std::vector<AddedToken> added_tokens;
  std::optional<Truncation> truncation;
  std::optional<TokenPadding> padding;
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  // Bytes that are not well-formed UTF-8 count as U+FFFD, one each. A text holds less than 4 GiB.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode(std::string_view first, std::string_view second,
                  const EncodeOptions& options = {}) const;
  // On all cores; the order is that of the texts.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts,
                                     const EncodeOptions& options = {}) const;
  // The ids of a text alone, appended: no special tokens, no truncation, no padding, and none of
  // the cost of offsets and strings.
  void ids_of(std::string_view text, std::vector<int32_t>& out,
              EncodeOptions::SpecialText special = EncodeOptions::SpecialText::token) const;

  enum class SpecialTokens { kept, skipped };
  std::string decode(std::span<const int32_t> ids,
                     SpecialTokens special = SpecialTokens::skipped) const;

  int32_t id_of(std::string_view token) const;  // -1 when unknown
  std::string token_of(int32_t id) const;       // empty when unknown
  size_t size() const;                          // one above the largest id: rows of an embedding
  const TokenizerParts& parts() const;
  const AddedTokens& added_tokens() const;

 private:
  struct Workspace;
  struct State;
  class Borrowed;

  void split(std::string_view text, AlignedText::Alignment alignment, bool with_special,
             Workspace& work) const;
  std::span<const WordToken> tokens_of(std::string_view word, Workspace& work) const;
  Encoding encode_one(std::string_view text, const EncodeOptions& options) const;
  Encoding finish(Encoding first, std::optional<Encoding> second,
                  const EncodeOptions& options) const;

  std::shared_ptr<State> state_;
};

}  // namespace longbow
