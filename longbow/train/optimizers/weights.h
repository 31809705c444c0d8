#pragma once
// The numbers that are trained. They are kept in float32 even where the model computes in a half
// type: an update is often smaller than what half a type's digits can tell apart.
#include <torch/nn/module.h>

#include "longbow/nn/contract/part.h"

namespace longbow {

struct Weight {
  std::string name;
  Tensor value;      // what the optimiser moves; its gradient is float32
  Tensor parameter;  // what the model reads; the same tensor when the types are the same
  Hint hint = {};
};

class Weights {
 public:
  // Casts the model's floating-point parameters and buffers to `compute`, but for exact buffers;
  // float32 and float64 models computing in their own type are left alone.
  Weights(torch::nn::Module& model, at::ScalarType compute);
  const std::vector<Weight>& all() const { return all_; }        // that are trained
  const std::vector<Weight>& frozen() const { return frozen_; }  // that need no gradient
  // The model's gradients, added up since the last call, become those of the values, in float32.
  void collect();
  void publish();  // the values become what the model reads
  // Values and buffers by name, as a checkpoint keeps them; copied back by load.
  Tensors saved() const;
  void load(const Tensors& saved, const std::string& file);

 private:
  torch::nn::Module* model_;
  std::vector<Weight> all_, frozen_;
  std::vector<Tensor> values_, parameters_;  // where they are two tensors
};

}  // namespace longbow
