#pragma once
// The long filters of Hyena: one tap for each channel and lag, from a small network over lags or
// directly trained.
#include <array>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/nn/contract/part.h"

namespace longbow {

enum class FilterKind { implicit, free };
constexpr std::array<std::string_view, 2> names_of(FilterKind) {
  return {"implicit", "free"};
}

struct FilterConfig {
  FilterKind filter = FilterKind::implicit;
  int64_t filter_width = 64, features = 5;
  double frequency = 1, shift = 0, squash = 0;
};
template <class V>
void fields(V& v, FilterConfig& c) {
  v("filter", c.filter, "a network that computes the taps from their lag, or every tap learned");
  v("filter_width", c.filter_width, "implicit: width of the network", range(1, 65536));
  v("features", c.features, "implicit: of a lag, its place and the others in pairs of waves",
    range(3, 1025));
  v("frequency", c.frequency, "implicit: w in the network's sin(w z), at the start", above(0));
  v("shift", c.shift, "implicit: added to the window exp(-t |rate|)", at_least(0));
  v("squash", c.squash, "free: taps move by this much towards zero, and smaller ones are zero",
    at_least(0));
}

// h_l = (e^(-t |rate|) + shift) N(z_l) for the lags l = 0 .. L - 1, where t = l / (L - 1),
//   z_l = [t, cos(f w), -sin(f w)],  w = 2 pi l / L, f from 1e-4 to bands - 1,
// N three layers sin(freq (W z + b)) and a last one without bias; the rates of the channels are
// spread evenly. Free filters are h_l = sign(K_l) max(|K_l| - squash, 0).
class Filter : public Part {
 public:
  // Up to so many groups of channels, which share the rates of their windows.
  Filter(const Site& site, int64_t channels, int64_t groups, const FilterConfig& config);
  // Of the first groups: [lags, groups * channels], in float32 at least.
  Tensor operator()(int64_t lags, int64_t groups) const;

 private:
  Tensor implicit(int64_t lags, int64_t groups) const;

  FilterConfig config_;
  int64_t longest_, channels_;
  Tensor kernel_;                                     // free: [L, G C]
  Tensor features_, frequency_;                       // implicit: [L, E], [W]
  std::array<Tensor, 3> weights_ = {}, biases_ = {};  // [W, E or W], [W]
  Tensor last_;                                       // [G C, W]
};

}  // namespace longbow
