#pragma once
#include <memory>

#include "longbow/core/config.h"
#include "longbow/text/components/pieces.h"

namespace longbow {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(TextPieces& pieces) const = 0;
  virtual Node node() const = 0;  // as tokenizer.json has it
  virtual bool needs_alignment() const { return false; }
};
using PreTokenizerPtr = std::shared_ptr<const PreTokenizer>;

}  // namespace longbow
