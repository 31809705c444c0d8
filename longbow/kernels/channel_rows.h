#pragma once
// Tokens that kernels read channel by channel, in chunks and segments.
#include "longbow/kernels/token_rows.h"

namespace longbow::kernels {

constexpr int kChannelChunk = 64, kChannelSegment = 1024;

// [B, N, C] of bfloat16, read 16 bytes at a time: strides are multiples of 8.
using ChannelRows = TokenRows<>;

}  // namespace longbow::kernels
