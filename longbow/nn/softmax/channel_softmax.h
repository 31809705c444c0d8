#pragma once
// Sums over keys where every channel has a softmax of its own: key j counts e^{k_j} in a channel,
// or e^{k_j + w_tj} for a query t that has a bias w_tj for it. Tokens are the second to last
// dimension and channels the last; k may have one channel for all of those of v.
#include <string>
#include <vector>

#include "longbow/nn/contract/context.h"

namespace longbow {

// Relative to a maximum, so that nothing overflows. It cancels in the mean and needs no gradient.
struct ChannelSums {
  Tensor max;      // [..., N, 1 or D]
  Tensor values;   // sum_j e^{k_j - max} v_j, [..., N, D]
  Tensor weights;  // sum_j e^{k_j - max}, as max

  static constexpr double kLowest = -3.4e38;  // the maximum of no keys, also in float32
  Tensor mean() const;                        // values / weights; zero where there is no key

  // f(tensor, what the sums of no keys hold there) of the three.
  template <class F>
  ChannelSums each(const F& f) const {
    return {f(max, kLowest), f(values, 0.0), f(weights, 0.0)};
  }
  ChannelSums narrow(int64_t first, int64_t count) const;
  // Moved along the tokens: sums of no keys come in, negative numbers cut off.
  ChannelSums padded(int64_t before, int64_t after) const;
};

// Keys that are -infinity have no weight anywhere.
ChannelSums each_key(const Tensor& k, const Tensor& v);  // every key alone
ChannelSums all_keys(const Tensor& k, const Tensor& v);  // one row: N = 1
ChannelSums joined(const ChannelSums& a, const ChannelSums& b);
ChannelSums joined_rows(const std::vector<ChannelSums>& parts);  // one after the other
ChannelSums running(const ChannelSums& x);  // row t becomes the sums of rows 0..t, O(N) in all

// What a lane holds of the keys it has seen: its sums, one row, under names that begin with `name`.
// `k` and `v` [B, H, 0, D] say how wide they are.
void open_channel_sums(State& state, const Tensor& k, const Tensor& v,
                       const std::string& name = "");
ChannelSums seen_channel_sums(const State& state, const std::string& name = "");
void set_channel_sums(State& state, const ChannelSums& sums, const std::string& name = "");
// Row t holds what was seen and the keys 0..t; the last row is what has been seen from now on.
ChannelSums grow_channel_sums(const Tensor& k, const Tensor& v, State& state,
                              const std::string& name = "");

// The biases of T queries for S keys: w = left [..., T, S], or left right^T with left [..., T, R]
// and right [S, R].
struct PairBias {
  Tensor left, right = {};
};

// sum_j e^{k_j + w_tj} v_j: k, v [..., S, D], `hidden` [..., T, S] bool or undefined. The sums are
// two matrix products, e^{w - r_t} (e^{k - c} v), with c and r the maxima of keys and biases. These
// may belong to different tokens, so that all products underflow: such sums are formed again,
// relative to the maximum of k + w. On a GPU, where looking for them would wait for the device, and
// for hidden pairs, all are formed that way. Only the arguments and the sums are kept for the
// backward pass.
ChannelSums biased_sums(const Tensor& k, const Tensor& v, const PairBias& bias,
                        const Tensor& hidden = {});

}  // namespace longbow
