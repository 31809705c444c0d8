#pragma once
// Projections along the sequence, from M rows to R slots. Slot r of rows x_i is sum_i w_ri A_i x_i:
//   learnable, fixed_random   w any matrix [R, L], A_i the identity;
//   convolution               w_ri = 1 where i div W = r, else 0; A_i one of W filters, i mod W;
//   mean_pool                 the same w, A_i the identity, each sum divided by its real tokens.
// max_pool takes the largest of a window instead, channel by channel. L is the longest sequence and
// W = ceil(L / R) the window. Padded rows count nowhere.
#include <array>
#include <optional>
#include <string_view>

#include "longbow/nn/slots/slots.h"

namespace longbow {

enum class LengthMethod { learnable, convolution, mean_pool, max_pool, fixed_random };
constexpr std::array<std::string_view, 5> names_of(LengthMethod) {
  return {"learnable", "convolution", "mean_pool", "max_pool", "fixed_random"};
}

// What the sum of a slot is divided by: nothing, the number of real tokens, or their sum of |w_ri|.
enum class LengthScale { none, tokens, mass };
constexpr std::array<std::string_view, 3> names_of(LengthScale) {
  return {"none", "tokens", "mass"};
}

enum class LengthStart { xavier_normal, uniform, block_average };
constexpr std::array<std::string_view, 3> names_of(LengthStart) {
  return {"xavier_normal", "uniform", "block_average"};
}

struct LengthProjection {
  LengthMethod method = LengthMethod::learnable;
  LengthScale scale = LengthScale::none;
  int64_t slots = 1, longest = 1;  // R, L
  Tensor weight = {};  // [R, L]; convolution: [D, D, W], depthwise [D, 1, W]; [H, …]: one a head
  Tensor bias = {};    // [R]; convolution: [D]; [H, …]: one a head; undefined = none

  bool windowed() const;  // a slot reads W rows that stand together
  bool pools() const;     // has no weights: what a window is without tokens is no slot
  bool commutes() const;  // with a projection of the channels: (E X) W = E (X W) for all heads
  int64_t window() const { return (longest + slots - 1) / slots; }

  // All slots of rows [B, H, M, D] -> [B, H, R, D], without the bias.
  Tensor operator()(const Tensor& rows, const Tensor& keep) const;
  // A sequence without real rows has no bias either.
  Tensor with_bias(const Tensor& filled, const Tensor& keep) const;
  // sum_i |w_ri| over the real rows, 0 where a slot holds none: [B or 1, H or 1, 1, R], float32 at
  // least.
  Tensor mass(int64_t rows, const Tensor& keep, const at::TensorOptions& like) const;

  // What the rows of one extension add, in `type` or else in float32 at least, with the mass after
  // each of them (undefined unless the scale or `weigh` asks for it). Positions [B, T]; undefined =
  // 0, 1, 2 …
  struct Growth {
    SlotRows sums;
    Tensor mass;  // [B or 1, H or 1, T, R]
  };
  Growth growth(const Tensor& rows, const Tensor& positions, const Tensor& keep,
                const Tensor& past_sums, const Tensor& past_mass, bool weigh,
                const std::optional<at::ScalarType>& type = {}) const;

 private:
  Tensor slot_bias(const Tensor& keep) const;
  Tensor weights_at(const Tensor& positions, int64_t rows, const at::TensorOptions& like) const;
  Tensor filtered_at(const Tensor& rows, const Tensor& positions) const;
};

// The first values of a learned weight of this shape.
Tensor initial_length_weight(const Site& site, const std::string& name, at::IntArrayRef shape,
                             LengthMethod method, LengthStart start);

// [B, H, M, D] -> [B, H, ceil(M / W), W, D], filled up at the end.
Tensor in_windows(const Tensor& rows, int64_t window, double fill = 0);

}  // namespace longbow
