#pragma once
#include <memory>
#include <string>
#include <vector>

#include "longbow/core/config.h"

namespace longbow {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Tokens to parts of the text, which are joined without anything between them.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
  virtual Node node() const = 0;  // as tokenizer.json has it
};
using TokenDecoderPtr = std::shared_ptr<const TokenDecoder>;

}  // namespace longbow
