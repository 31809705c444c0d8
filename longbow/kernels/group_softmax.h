#pragma once
// A softmax over groups of neighbours in rows of float32, in place; ops/group_softmax.h defines it.
#include <cstdint>

namespace longbow::kernels {

constexpr int64_t kMostGroup = 512;

struct GroupSoftmax {
  float* scores;    // [slabs, count, columns], become weights
  float* gradient;  // null, or as large: that of the weights becomes that of the scores
  int64_t slabs, count, columns;  // columns are groups beside each other
  int64_t group;                  // a multiple of 4 up to kMostGroup
  const int64_t* key;             // [2], or null: nothing is dropped
  uint64_t site;
  double rate;
  int64_t rows, first;  // the rows first … first + count - 1 of so many in a slab
};

void group_softmax_cuda(const GroupSoftmax& task, void* stream) noexcept;

}  // namespace longbow::kernels
