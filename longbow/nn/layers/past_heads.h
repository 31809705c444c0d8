#pragma once
// Keys and values of the rows that were seen last, for a mixer that reads its past while a sequence
// grows. A state that is opened while gradients are recorded keeps the rows themselves, since the
// projections learn from old rows too and change between segments; otherwise it keeps their keys
// and values.
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/mixer.h"

namespace longbow {

struct KeysAndValues {
  Tensor k, v;  // [B, H, N, D]
};
struct KeyValueProjections {
  const Linear &key, &value;
  int64_t heads;

  KeysAndValues operator()(const Tensor& rows) const;  // [B, N, C]
};

// The last `past` rows; `keep_rows` also where keys and values would do.
void open_past_heads(State& state, const std::string& name, int64_t lanes, int64_t past,
                     const KeyValueProjections& projections, bool keep_rows = false);
// Of the past rows, then of those of an extension: [B, H, past + T, D].
struct PastHeads {
  KeysAndValues heads;
  Tensor rows;  // [B, past + T, C] where the state keeps them
};
PastHeads grow_past_heads(State& state, const std::string& name, const Tensor& rows,
                          const KeyValueProjections& projections, const Context& context);

}  // namespace longbow
