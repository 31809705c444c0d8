#pragma once
#include "longbow/models/decoder/token_loop.h"

namespace longbow {

// When a text may end: with the token `id` (-1 = never), behind at least `earliest` others.
struct Ending {
  int64_t id = -1, earliest = 0;
  Tensor allowed(const Tensor& logits, const Tensor& step) const;  // [L, V], [1]
};

// What log-probabilities of texts of these lengths are divided by.
Tensor penalty_of(const Tensor& lengths, const DecodingConfig& config);

// From a state whose lanes are beams, those of a text beside each other and alike, and the logits
// of their first token. Of the 2 K best continuations of a text's K beams, the ends among the first
// K are finished texts, and the first K that are no ends go on.
Decoded beam_search(const Continuation& model, const State& state, const Tensor& logits,
                    const Ending& ending, int64_t steps, const DecodingConfig& config,
                    Replay& replay);

}  // namespace longbow
