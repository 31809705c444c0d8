#pragma once
#include "longbow/models/language_model.h"
#include "longbow/tasks/task.h"

namespace longbow {

struct CausalLmConfig : LanguageModelConfig {
  CausalLmConfig() {
    encoder.causal = true;
    head.transform = false;
  }
  DecodingConfig decoding = {};
  int64_t end = 0;
};
template <class V>
void fields(V& v, CausalLmConfig& c) {
  fields(v, static_cast<LanguageModelConfig&>(c));
  v("decoding", c.decoding, "how texts are written");
  v("end", c.end, "id that ends a written text; 0 = the data's, if it has one", at_least(0));
}

// The next token, from those before it.
Objective causal_lm_objective();

// What follows each token of a row, kIgnore behind the last: [B, N] -> [B, N].
Tensor next_tokens(const Tensor& tokens, const Tensor& lengths);

}  // namespace longbow
