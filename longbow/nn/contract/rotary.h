#pragma once
#include <array>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/nn/contract/context.h"

namespace longbow {

// Which channels of a head make up a plane: neighbours (0, 1), (2, 3) … as in the paper, or i and i
// + r / 2 as in GPT-NeoX and Hugging Face's models.
enum class Planes { pairs, halves };
constexpr std::array<std::string_view, 2> names_of(Planes) {
  return {"pairs", "halves"};
}

// Positions by rotation (Su et al., 2021, arXiv:2104.09864): plane i of the first r channels of a
// query or key at position t is turned by the angle t base^(-2 i / r), so that their product
// depends on how far apart they are.
struct Rotary {
  double base = 10000;
  double fraction = 1;
  Planes planes = Planes::halves;

  int64_t channels(int64_t head) const;  // r, an even number
  // x [B, H, N, D] at positions [B or 1, N].
  Tensor operator()(const Tensor& x, const Tensor& positions) const;
};
template <class V>
void fields(V& v, Rotary& c) {
  v("base", c.base, "b in the angles t b^(-2 i / r) of plane i at position t", above(1));
  v("fraction", c.fraction,
    "fraction of a head's channels that are rotated, r of them; the others know no position",
    Range{0, 1, true});
  v("planes", c.planes, "channels 2 i and 2 i + 1 are a plane, or i and i + r / 2");
}

}  // namespace longbow
