#include "longbow/tasks/images.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace longbow {
namespace {

constexpr int64_t kImages = 10000;  // of the training split that are looked at

// Mean and standard deviation of the grey values, which are 0..1.
void measure(PixelsConfig& pixels, const Dataset& train) {
  std::array<int64_t, kGreyLevels> counts = {};
  for (int64_t i = 0; i < std::min(train.size(), kImages); ++i)
    for (const auto id : train.get(i).tokens) ++counts.at(static_cast<size_t>(id - 1));
  double count = 0, sum = 0, squares = 0;
  for (size_t level = 0; level < counts.size(); ++level) {
    const auto value = static_cast<double>(level) / (kGreyLevels - 1.0),
               weight = static_cast<double>(counts[level]);
    count += weight;
    sum += weight * value;
    squares += weight * value * value;
  }
  if (count == 0) return;
  pixels.mean = sum / count;
  const double variance = squares / count - pixels.mean * pixels.mean;
  // Images of one grey level have none.
  constexpr double kLeast = 1e-12;
  pixels.deviation = variance > kLeast ? std::sqrt(variance) : 1;
}

}  // namespace

void fit_image(EncoderConfig& config, const Splits& splits, const Node& tree) {
  const bool is_image = splits.image.width > 0;
  if (config.input == Input::pixels) {
    if (!is_image)
      throw UserError(tree.place_of("input"),
                      "model.input is pixels, but the samples are not images",
                      "leave it out; cifar10, mnist and pathfinder are images");
    if (config.pixels.deviation == 0) measure(config.pixels, *splits.train);
  }
  if (config.positions == Positions::axial && config.axial.columns == 0 && config.axial.rows == 0 &&
      is_image)
    config.axial.columns = splits.image.width;
}

}  // namespace longbow
