#pragma once
// Sums over all keys, channel by channel, for a tile of neighbouring queries at a time.
#include "longbow/nn/softmax/channel_softmax.h"

namespace longbow {

// Every pair has a bias: left [N, N], or left [N, R] and right [N, R]. k, v [B, H, N, D]:
// O(N^2 D).
ChannelSums paired_sums(const Tensor& k, const Tensor& v, const PairBias& bias, bool causal);

// Pairs within a window have a bias, w_tj = taps[..., t, j - t + reach] where |t - j| <= reach, and
// all others have none: [H or 1, N or 1, 2 reach + 1], where one row serves all queries.
// k, v [B, H, N, D]: O(N (reach + 1) D), since keys outside a tile's windows enter by running sums.
ChannelSums windowed_sums(const Tensor& k, const Tensor& v, const Tensor& taps, bool causal);

// A lane holds the last `reach` tokens and the sums of all that have left them. `k` and `v`
// [B, H, 0, D] say how wide they are.
void open_window(State& state, const Tensor& k, const Tensor& v, int64_t reach);
// The taps of each new token, [..., T, 2 reach + 1]; `keep` [B, T] or undefined. One call weighs
// T (T + reach) pairs.
ChannelSums grow_window(const Tensor& k, const Tensor& v, const Tensor& taps, const Tensor& keep,
                        State& state);

}  // namespace longbow
