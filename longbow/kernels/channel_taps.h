#pragma once
// A convolution over the tokens of one sequence, channel by channel, on a CPU:
//   u_t = b + sum_j a_j z_{t + j - left},   z is zero outside the sequence;   y = u or silu(u).
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

template <class T>
struct ChannelTaps {
  int64_t tokens, channels, taps, left;
  Rows<const T> z;   // [tokens, channels]
  const T* weights;  // [taps, channels]
  const T* bias;     // [channels] or null
  bool silu;
  Rows<T> y;
};
template <class T>
struct ChannelTapsBackward {
  ChannelTaps<T> past;  // without y
  Rows<const T> dy;
  Rows<T> dz;
  T* dweights;  // [taps + 1, channels], to which is added; the bias comes last
};

// Tiles `first` … `last` - 1 of channel_tiles.
int64_t channel_tiles(int64_t tokens) noexcept;
template <class T>
void channel_taps(const ChannelTaps<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void channel_taps_backward(const ChannelTapsBackward<T>& task, int64_t first,
                           int64_t last) noexcept;

}  // namespace longbow::kernels
