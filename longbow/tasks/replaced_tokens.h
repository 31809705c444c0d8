#pragma once
#include "longbow/models/replaced_token.h"
#include "longbow/tasks/masking.h"
#include "longbow/tasks/task.h"

namespace longbow {

struct ReplacedTokensConfig {
  ReplacedTokenConfig model = {};
  MaskingConfig masking = {.masked = 1, .random = 0};
  double generator_weight = 1, detector_weight = 50;
};
template <class V>
void fields(V& v, ReplacedTokensConfig& c) {
  fields(v, c.model);
  v("masking", c.masking, "which tokens the generator fills");
  v("generator_weight", c.generator_weight,
    "factor on the generator's loss, a mean over hidden tokens", at_least(0));
  v("detector_weight", c.detector_weight, "factor on the detector's loss, a mean over all tokens",
    at_least(0));
}

// Which tokens a small masked language model has replaced.
Objective replaced_tokens_objective();

}  // namespace longbow
