#pragma once
#include "longbow/nn/contract/context.h"

namespace longbow {

// The last rows [B, P, C] of the real tokens seen so far, which a convolution over the past reads
// while decoding; zero before the first token.
void open_past_rows(State& state, const std::string& name, int64_t lanes, int64_t past,
                    int64_t width, const at::TensorOptions& options);

// [B, P + T, C]: the past rows, then those of an extension. The lane moves on by the real ones,
// behind which the padded ones of the extension stand.
Tensor grow_past_rows(State& state, const std::string& name, const Tensor& rows,
                      const Context& context);

}  // namespace longbow
