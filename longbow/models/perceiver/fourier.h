#pragma once
// Fourier features of positions (Perceiver, 2021, arXiv:2103.03206). An axis with places p in
// [-1, 1] becomes the 2 K + 1 channels
//   sin(pi f_k p), cos(pi f_k p), p,   f_k = 1 .. mu / 2 in K equal steps.
#include <cstdint>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/nn/contract/context.h"

namespace longbow {

struct FourierConfig {
  int64_t bands = 0;
  double max_frequency = 0;
  std::vector<int64_t> sides = {};

  int64_t channels() const;  // of all axes; 0 without bands
};
template <class V>
void fields(V& v, FourierConfig& c) {
  v("bands", c.bands,
    "frequencies K of the Fourier features beside the embeddings, 2 K + 1 channels an axis; 0 = no "
    "such features",
    range(0, 4096));
  v("max_frequency", c.max_frequency,
    "frequencies rise from 1 to half of this; 0 = the length of the axis", at_least(0));
  v("sides", c.sides,
    "sides of the grid that the tokens are read from, row by row; empty = one axis of max_length",
    range(1, 1 << 30));
}

// [...] -> [..., 2 K + 1], in the type of the places.
Tensor fourier_features(const Tensor& places, int64_t bands, double max_frequency);

// Of the first `length` places of the grid, or of a line of that length: [length, channels]
// float32. The places of an axis lie at equal distances, the first at -1 and the last at 1.
Tensor fourier_table(const FourierConfig& config, int64_t length);

}  // namespace longbow
