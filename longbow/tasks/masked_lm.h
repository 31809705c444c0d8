#pragma once
#include "longbow/models/language_model.h"
#include "longbow/tasks/masking.h"
#include "longbow/tasks/task.h"

namespace longbow {

struct MaskedLmConfig {
  LanguageModelConfig model = {};
  MaskingConfig masking = {};
};
template <class V>
void fields(V& v, MaskedLmConfig& c) {
  fields(v, c.model);
  v("masking", c.masking, "which tokens are hidden");
}

// Hidden tokens, guessed from all others.
Objective masked_lm_objective();

}  // namespace longbow
