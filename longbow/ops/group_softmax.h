#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Which weights are dropped: those of the rows row … of a draw [G, rows, columns].
struct DroppedRows {
  at::Tensor key = {};  // undefined: none is
  uint64_t site = 0;
  double rate = 0;
  int64_t rows = 0, row = 0;
};

// In place: of each row of scores [G, n, columns], every `group` neighbours become the softmax over
// them, and zero where they are dropped; others are not divided by 1 - rate. Outside of the graph.
void group_softmax_(at::Tensor& scores, int64_t group, const DroppedRows& dropped = {});
// Scores become these weights, and the gradient of the weights becomes that of the scores.
void group_softmax_backward_(at::Tensor& scores, at::Tensor& gradient, int64_t group,
                             const DroppedRows& dropped = {});

// Whether a kernel does it in one pass for scores like these: on a GPU in float32, for groups of a
// multiple of 4 up to 512.
bool has_group_kernel(const at::Tensor& like, int64_t group);

}  // namespace longbow
