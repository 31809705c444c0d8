#include "longbow/nn/layers/modes.h"

#include <ATen/ATen.h>

#include "longbow/ops/fft_convolution.h"

namespace longbow {
namespace {

// A lag l = a T + b is taken in two steps, exp(a T rate) exp(b rate), so that the sum over modes is
// a product of matrices [a, n] and [n, b].
constexpr int64_t kTile = 64;

// exp(l rate) for l = 0, stride, 2 stride …: [C, count, n].
Tensor powers(const Tensor& rate, int64_t count, int64_t stride) {
  const auto lags = at::arange(count, rate.options().dtype(at::kLong)) * stride;
  return (rate.unsqueeze(-2) * lags.unsqueeze(-1)).exp();
}

Tensor as_modes(const Tensor& x, const Tensor& rate) {
  return rate.is_complex() ? from_pairs(x) : x;
}

// Re sum_n weight_n exp(l rate_n): weight [..., C, n] -> [..., L, C].
Tensor faded(const Tensor& rate, const Tensor& weight, int64_t length) {
  const int64_t tile = std::min(kTile, length), tiles = (length + tile - 1) / tile;
  const auto far = weight.unsqueeze(-2) * powers(rate, tiles, tile), near = powers(rate, tile, 1);
  return as_pairs(far.conj_physical())
      .matmul(as_pairs(near).transpose(-2, -1))  // [..., C, a, b]
      .flatten(-2)
      .narrow(-1, 0, length)
      .transpose(-2, -1);
}

// sum_t exp((T - 1 - t) rate) u_t: u [B, T, C] -> [B, C, n].
Tensor gathered(const Tensor& rate, const Tensor& u) {
  const int64_t length = u.size(1), tile = std::min(kTile, length),
                tiles = (length + tile - 1) / tile;
  const auto by_lag = at::constant_pad_nd(u.flip(1).transpose(1, 2), {0, tiles * tile - length})
                          .unflatten(-1, {tiles, tile});  // [B, C, a, b]
  const auto near = as_modes(by_lag.matmul(as_pairs(powers(rate, tile, 1))), rate);
  return (near * powers(rate, tiles, tile)).sum(-2);
}

// Real tokens moved from the front to the end, behind the zeros.
Tensor at_the_end(const Tensor& u, const Tensor& real) {
  const auto index =
      (at::arange(u.size(1), real.options()) + real.unsqueeze(1)).remainder(u.size(1));
  return u.gather(1, index.unsqueeze(-1).expand_as(u));
}

// [..., 2]: real parts beside imaginary ones.
Tensor with_imaginary(const Tensor& x) {
  return x.is_complex() ? at::view_as_real(x) : at::constant_pad_nd(x.unsqueeze(-1), {0, 1});
}

}  // namespace

Tensor as_pairs(const Tensor& x) {
  return x.is_complex() ? at::view_as_real(x.contiguous()).flatten(-2) : x;
}

Tensor from_pairs(const Tensor& pairs) {
  return at::view_as_complex(pairs.unflatten(-1, {-1, 2}));
}

Tensor kernel_of(const Modes& modes, int64_t length) {
  return faded(modes.rate, modes.weight, length);
}

Tensor convolved(const Tensor& u, const Modes& modes, const Tensor& skip, FirstLag first,
                 ModeActivation activation) {
  if (has_mode_kernel(u))
    return mode_convolution(u, with_imaginary(modes.rate), with_imaginary(modes.weight), skip,
                            first, activation);
  const auto kernel = [&](int64_t direction) {
    return direction < modes.rate.size(0)
               ? kernel_of({modes.rate[direction], modes.weight[direction]}, u.size(1))
               : Tensor();
  };
  const auto wide_u = u.to(wide(u));
  const auto y = fft_convolution(wide_u, kernel(0), kernel(1), first) + skip * wide_u;
  return activated(y, activation).to(u.scalar_type());
}

void open_modes(State& state, const std::string& name, int64_t lanes, const Modes& modes) {
  const auto like = as_pairs(modes.weight.detach());
  state.add(name, {lanes, like.size(0), like.size(1)}, like.options());
}

Tensor grow_modes(State& state, const std::string& name, const Tensor& u, const Modes& modes,
                  const Tensor& keep) {
  const auto& rate = modes.rate;
  auto& lane = state.lane.at(name);
  const int64_t length = u.size(1);
  const auto before = as_modes(lane, rate);  // [B, C, n]
  const auto y = fft_convolution(u, kernel_of(modes, length)) +
                 faded(rate, modes.weight * rate.exp() * before, length);
  const auto real =
      keep.defined() ? keep.sum(1) : at::full({1}, length, u.options().dtype(at::kLong));
  const auto decay = (rate * real.view({-1, 1, 1})).exp();
  lane = as_pairs(decay * before + gathered(rate, keep.defined() ? at_the_end(u, real) : u));
  return y;
}

}  // namespace longbow
