#pragma once
// What the operators over kernels/block_softmax.h share.
#include <ATen/core/Tensor.h>

#include "longbow/kernels/block_softmax.h"
#include "longbow/ops/block_rule.h"

namespace longbow {

// Of [1 or B, 1 or H, ...] without gaps, or undefined.
template <class T>
kernels::PerHead<T> per_head(const at::Tensor& x) {
  if (!x.defined()) return {nullptr, 0, 0};
  return {static_cast<const T*>(x.const_data_ptr()), x.size(0) == 1 ? 0 : x.stride(0),
          x.size(1) == 1 ? 0 : x.stride(1)};
}

// A rule whose tensors have no gaps.
BlockRule dense(BlockRule rule);

// Whether queries read windows, as kernels/block_softmax.h has them.
bool reads_windows(const BlockRule& rule, int64_t queries);

// Of arguments that have the kernel's form, the bias in float32 or, by distance, in the type of q;
// out and log_sum are set by the caller.
kernels::BlockSoftmax block_task(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& bias, const BlockRule& rule);

// Which entries of the lists name each block of keys, in their order: a stable sort by block, and
// where each begins.
struct Readers {
  at::Tensor order, first;  // [1 or B, 1 or H, U S], [.., blocks of keys + 1]
};
Readers readers_of(const at::Tensor& columns, int64_t key_blocks);

}  // namespace longbow
