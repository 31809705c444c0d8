#pragma once
#include <vector>

#include "longbow/nn/softmax/softmax.h"

namespace longbow {

// One softmax over several families of keys: those in tiles near a query, and others that many
// queries read. Values of 4 dimensions beside scores of 5 are the same for all tiles.
struct KeyFamily {
  Tensor scores;   // [B, H, N, M] or, by tiles, [B, H, K, T, M]
  Tensor visible;  // bool, broadcasts to the scores; undefined = all
  Tensor values;   // [B, H, M, D] or, by tiles, [B, H, K, M, D]
};
Tensor joint_softmax(const std::vector<KeyFamily>& families, const Weighing& weighing,
                     Context& context);  // [B, H, N, D] or [B, H, K, T, D]

}  // namespace longbow
