#pragma once
// The random matrices that features are made of: drawn when a layer is built, saved with it, not
// trained, and drawn anew every few steps of training.
#include <array>
#include <string>
#include <string_view>

#include "longbow/nn/contract/site.h"

namespace longbow {

enum class RowNorms { regular, fixed };
constexpr std::array<std::string_view, 2> names_of(RowNorms) {
  return {"regular", "fixed"};
}

struct Draw {
  int64_t matrices = 1, rows = 1, width = 1;
  bool orthogonal = true;              // in blocks of `width` rows, uniformly rotated
  RowNorms norms = RowNorms::regular;  // as long as normal vectors, or all sqrt(width)
  int64_t redraw = 0;                  // training steps between two draws; 0 = never
  // Above 0: this many matrices are drawn once; training picks from them where it would draw, no
  // two the same, and evaluation takes the first.
  int64_t pool = 0;
};

// [matrices, rows, width] float32: a function of seed, step and name.
Tensor drawn(const Draw& draw, const Random& random, const std::string& name);

class RandomMatrices {
 public:
  // The buffer `name` of the owner, and `pool` where there is one.
  RandomMatrices(torch::nn::Module& owner, const Site& site, const std::string& name,
                 const Draw& draw);
  Tensor operator*() const;
  // The owner's after_step. In place, so that a captured graph sees it; the first call is with 0.
  void after_step(int64_t step);

 private:
  torch::nn::Module* owner_;
  Draw draw_;
  uint64_t seed_;
  std::string name_;
  Tensor now_, pool_;  // [matrices, rows, width], [pool, rows, width] or undefined
};

}  // namespace longbow
