#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "longbow/text/components/encoding.h"

namespace longbow {

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  TextSide side = TextSide::right;  // what is cut
  size_t max_length = 512;          // with special tokens
  Strategy strategy = Strategy::longest_first;
  size_t stride = 0;  // tokens that neighbouring windows share
  friend bool operator==(const Truncation&, const Truncation&) = default;
};

struct TokenPadding {
  std::optional<size_t> length;  // none: that of the longest in a batch
  TextSide side = TextSide::right;
  std::optional<size_t> multiple_of;
  int32_t id = 0;
  int32_t type_id = 0;
  std::string token = "[PAD]";
  friend bool operator==(const TokenPadding&, const TokenPadding&) = default;
};

// Cuts one text or two to `truncation`, of which `added` tokens are left for special ones. A
// UserError where the strategy cannot.
void shorten(Encoding& first, Encoding* second, const Truncation& truncation, size_t added);

// Pads to the length that `padding` asks for.
void pad_all(std::span<Encoding> encodings, const TokenPadding& padding);

}  // namespace longbow
