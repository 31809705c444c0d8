#pragma once
// What a folder says of its model: that of a finished run, of an imported BERT or of one of Hugging
// Face.
#include "longbow/core/config.h"
#include "longbow/nn/contract/context.h"

namespace longbow {

struct StoredModel {
  std::string objective = {};  // of a run; empty for a BERT
  Node model = {};
  int64_t vocabulary = 0;  // 0: it has none
};

// UserError for a folder that is missing or holds a run without weights; `place` is where it was
// named.
void check_stored_model(const std::string& folder, const Place& place);
StoredModel stored_model(const std::string& folder);
Tensors stored_weights(const std::string& folder);  // of a BERT, as an encoder names them

}  // namespace longbow
