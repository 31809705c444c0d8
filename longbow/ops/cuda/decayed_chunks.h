#pragma once
// What ops over sums that fade share on a GPU: their tensors as the kernels of
// kernels/decayed_product.h walk over them, and the passes of those whose columns fade by blocks.
#include <ATen/core/Tensor.h>

#include <tuple>

#include "longbow/kernels/decayed_product.h"
#include "longbow/ops/cuda/by_head.h"

namespace longbow::decayed {

// Where gradients go: fresh, or added to what is there; without dsteps and dskip where there are
// neither steps nor `skip`.
struct Gradients {
  at::Tensor dx, dy, dz, dlog_decay;
  bool add = false;
  at::Tensor dsteps = {}, dskip = {};
};

kernels::Decays decays_of(const at::Tensor& log_decay, bool reversed);

// Sums at the ends of chunks, and where the scan ends.
struct Sums {
  at::Tensor at_chunks, last;
};

// Of keys those before each chunk, of queries those after each, from their own sums on.
void scan(const Sums& sums, const kernels::DecayShape& shape, const at::Tensor& whole,
          const at::Tensor& first, int64_t blocks, bool queries);

// What both passes are given: tokens as the kernels walk over them, and where the pieces begin.
struct Given {
  at::Tensor x, y, z, log_decay;
  bool reversed;
  float scale;

  Given(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
        const at::Tensor& decays, bool from_behind, double factor);
  kernels::ByHead rows(const at::Tensor& t) const { return walked_by_head(t, reversed); }
  Sums empty_sums(int64_t blocks, int64_t chunks, const kernels::DecayShape& shape) const;
};

// Columns that fade by blocks. Each value may be multiplied by a step, [B, H, N, blocks], before it
// is added to the sums, and what is read may have the values times `skip` [H, blocks] added.
struct ByBlock : Given {
  at::Tensor skip;
  at::Tensor added, whole;  // the decays added up within chunks, and those of whole chunks

  ByBlock(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
          const at::Tensor& decays, bool from_behind, double factor, const at::Tensor& steps = {},
          const at::Tensor& skips = {});
  kernels::DecayedBlocks blocks() const;
  Sums summed(const at::Tensor& of, const at::Tensor& values, const at::Tensor& first,
              bool queries) const;
  // What is read, the sums after the last token, and those before each chunk.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& first) const;
  // Returns the gradient of the sums before the first token; nothing is added.
  at::Tensor backward(const at::Tensor& dout, const at::Tensor& dlast, const at::Tensor& before,
                      const Gradients& to) const;
};

}  // namespace longbow::decayed
