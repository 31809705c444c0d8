#pragma once
#include <memory>

#include "longbow/core/config.h"
#include "longbow/text/unicode/aligned_text.h"

namespace longbow {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
  virtual Node node() const = 0;  // as tokenizer.json has it
};
using NormalizerPtr = std::shared_ptr<const Normalizer>;

}  // namespace longbow
