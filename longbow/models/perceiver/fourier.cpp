#include "longbow/models/perceiver/fourier.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <numbers>

namespace longbow {

int64_t FourierConfig::channels() const {
  if (bands == 0) return 0;
  return std::max<int64_t>(std::ssize(sides), 1) * (2 * bands + 1);
}

Tensor fourier_features(const Tensor& places, int64_t bands, double max_frequency) {
  const auto frequencies = at::linspace(1, max_frequency / 2, bands, places.options());
  const auto angles = places.unsqueeze(-1) * frequencies * std::numbers::pi;
  return at::cat({angles.sin(), angles.cos(), places.unsqueeze(-1)}, -1);
}

Tensor fourier_table(const FourierConfig& config, int64_t length) {
  auto sides = config.sides;
  if (sides.empty()) sides = {length};
  int64_t places = 1;
  for (const auto side : sides) places *= side;
  TORCH_CHECK(places >= length, "fourier features: a grid of ", places, " places for ", length,
              " tokens");
  std::vector<Tensor> axes;
  int64_t inner = places;  // steps between two places of the axis
  for (const auto side : sides) {
    inner /= side;
    const auto place =
        at::arange(length, at::kLong).div(inner, "floor").remainder(side);  // [length]
    const auto features = fourier_features(
        at::linspace(-1, 1, side, at::kDouble), config.bands,
        config.max_frequency > 0 ? config.max_frequency : static_cast<double>(side));
    axes.push_back(features.index_select(0, place));
  }
  return at::cat(axes, -1).to(at::kFloat);
}

}  // namespace longbow
