#pragma once
// Causal attention over windows of W tokens: query i reads its own window token by token, up to
// itself, and every window before it as one slot. Slots and tokens share one softmax.
#include "longbow/nn/slots/length_projection.h"

namespace longbow {

// The slots of keys and values are those of `e` and `f`, whose windows they are. q is scaled
// already and as long as k.
Tensor read_windows(const Heads& heads, const LengthProjection& e, const LengthProjection& f,
                    const Weighing& weighing, Context& context);

// The state: sums of all windows, and the tokens of the one that is open.
void open_windows(State& state, const Heads& empty, const LengthProjection& e);
Tensor grow_windows(const Heads& heads, const LengthProjection& e, const LengthProjection& f,
                    const Weighing& weighing, State& state, Context& context);

}  // namespace longbow
