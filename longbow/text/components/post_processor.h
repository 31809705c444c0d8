#pragma once
#include <memory>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/text/components/encoding.h"

namespace longbow {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // How many tokens it adds to one text or to two.
  virtual size_t added_tokens(bool is_pair) const = 0;
  // One or two texts become parts that are joined in their order.
  virtual void process(std::vector<Encoding>& parts, bool add_special_tokens) const = 0;
  virtual Node node() const = 0;  // as tokenizer.json has it
};
using PostProcessorPtr = std::shared_ptr<const PostProcessor>;

}  // namespace longbow
