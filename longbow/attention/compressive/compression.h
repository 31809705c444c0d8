#pragma once
// How `rate` rows become one.
#include <array>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/mixer.h"

namespace longbow {

enum class Compression { mean, max, conv, most_used };
constexpr std::array<std::string_view, 4> names_of(Compression) {
  return {"mean", "max", "conv", "most_used"};
}

// A convolution starts as the mean: the slots of a random one tell nothing at first, and a model
// learns to ignore them before they do.
class Compressor : public Part {
 public:
  Compressor(const Site& site, Compression how, int64_t rate);
  // rows [B, G, rate, C] -> [B, G, C]; `used` [B, G] says which row of a group was read most.
  Tensor operator()(const Tensor& rows, const Tensor& used) const;
  // The slots that were made of the rows, from which only the convolution learns.
  Tensor known(const Tensor& slots, const Tensor& rows) const;
  bool learns() const { return convolution_ != nullptr; }

 private:
  Compression how_;
  std::shared_ptr<Linear> convolution_;  // [C, rate C]
};

}  // namespace longbow
