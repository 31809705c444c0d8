#pragma once
// How a model that gives the scores of the next token is made to write: greedily, by beam search or
// by sampling. Every step reads the state of what was written so far, never the text again.
#include "longbow/models/decoder/continuation.h"
#include "longbow/tensors/replay.h"

namespace longbow {

// `end` is the id that ends a text, -1 = none does. Samples are a function of `random`. Tokens are
// written as `replay` does it, or where it is null as config.graphs says.
Decoded decode(const Continuation& model, const Prompt& prompt, int64_t end,
               const DecodingConfig& config, const Random& random = {}, Replay* replay = nullptr);

// The same greedily, always `steps` long and without waiting for the device, for evaluations: the
// tokens [B, steps], 0 behind the end.
Tensor decode_greedily(const Continuation& model, const Prompt& prompt, int64_t end, int64_t steps);

// What a sampler draws from: logits [L, V] -> probabilities [L, V].
Tensor sampling_distribution(const Tensor& logits, const DecodingConfig& config);

}  // namespace longbow
