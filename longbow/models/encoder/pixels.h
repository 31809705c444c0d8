#pragma once
#include "longbow/core/fields.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

struct PixelsConfig {
  double mean = 0, deviation = 0;
};
template <class V>
void fields(V& v, PixelsConfig& c) {
  v("mean", c.mean, "input pixels: subtracted from the grey values, which are 0..1", range(0, 1));
  v("deviation", c.deviation,
    "input pixels: what the difference is divided by; 0 = mean and deviation of the training "
    "images",
    range(0, 1));
}

// Ids of pixels: 0 is padding, 1 + g the grey level g of 0..255, and behind them the mask token of
// a model that guesses hidden pixels.
inline constexpr int64_t kGreyLevels = 256, kPixelIds = kGreyLevels + 1, kMaskedPixel = kPixelIds;

// A linear projection of grey values, as real numbers: [B, N] ids -> [B, N, E]. With a mask token
// among the ids it has two channels, the value and whether it is hidden: W (z (1 - m)) + U m + b.
class Pixels : public Part {
 public:
  // `ids` is kPixelIds, or one more with a mask token.
  Pixels(const Site& site, const PixelsConfig& config, int64_t ids, int64_t width);
  Tensor operator()(const Tensor& ids) const;

 private:
  double mean_, deviation_;
  std::shared_ptr<Linear> value_;
  Tensor mask_;  // [E], or undefined
};

}  // namespace longbow
