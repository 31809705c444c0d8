#pragma once
#include "longbow/nn/contract/context.h"

namespace longbow {

// [length, width] float32: sin(t / 10000^(2i / width)) in channel 2i, its cosine in channel 2i + 1.
Tensor sinusoids(int64_t length, int64_t width);

}  // namespace longbow
