#pragma once
// The passes of the delta rule on a GPU (kernels/delta_product.h), in one direction or both at
// once.
#include <ATen/core/Tensor.h>

#include <vector>

#include "longbow/kernels/delta_product.h"
#include "longbow/ops/cuda/by_head.h"

namespace longbow::delta {

// What both passes are given of one direction, and the inverses and decays of its chunks, which
// `invert` fills unless they are known.
struct Given {
  at::Tensor q, k, v, beta, log_decay;
  bool reversed;
  float scale;
  at::Tensor inverses = {}, decays = {};  // [B H, chunks, 64, 64], [B H, chunks, 64]

  kernels::ByHead rows(const at::Tensor& x) const { return walked_by_head(x, reversed); }
  kernels::DeltaHeads heads() const;
  at::Tensor empty_sums() const;
  at::Tensor empty_last() const;
};
// With room for inverses and decays, if there are none.
Given given(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& beta,
            const at::Tensor& log_decay, bool reversed, double scale,
            const at::Tensor& inverses = {}, const at::Tensor& decays = {});
using Directions = std::vector<Given>;

void invert(const Directions& all);

// What is read, what is written, the sums before each chunk and after the last token.
struct Reads {
  at::Tensor out, written, before, last;
};
// From the sums `first`, of which there may be none.
std::vector<Reads> read(const Directions& all, const at::Tensor& first);

struct Gradients {
  at::Tensor dq, dk, dv, dbeta, dlog_decay, dfirst;
};
// Of what is read and, where it is defined, of the sums after the last token.
std::vector<Gradients> gradients(const Directions& all, const std::vector<Reads>& reads,
                                 const std::vector<at::Tensor>& douts, const at::Tensor& dlast);

}  // namespace longbow::delta
