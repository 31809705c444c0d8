#pragma once
// The sub-layers that a Linformer of linformer-pytorch is made of.
#include "longbow/models/linformer_pytorch/linformer_config.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

// LN(x + dropout(f(x))), with a projection of x where f changes the width.
class LinformerLayer : public Part {
 public:
  Tensor operator()(const Tensor& x, const Context& context, const LinformerInputs& inputs);
  virtual void start(State& state, int64_t lanes, int64_t capacity, const LinformerInputs& inputs);
  Tensor extend(const Tensor& x, State& state, const Context& context);

 protected:
  LinformerLayer(const Site& site, int64_t out, double rate, CheckpointLevel level);
  // What f is to see beside x.
  virtual Context prepared(const Tensor& x, const Context& context,
                           const LinformerInputs& inputs) const;
  virtual Tensor f(const Tensor& x, Context& context) = 0;
  virtual Tensor grown(const Tensor& x, State& state, Context& context);

  std::string path_;
  double rate_;  // of dropout

 private:
  Tensor joined(const Tensor& x, const Tensor& y, const Context& context) const;
  CheckpointLevel level_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Linear> resample_;
  std::shared_ptr<LayerNorm> norm_;
};

// Attention of the tokens to themselves, or `cross` to the embeddings.
std::shared_ptr<LinformerLayer> attention_layer(const Site& site, const LinformerConfig& config,
                                                bool cross);
std::shared_ptr<LinformerLayer> feed_layer(const Site& site, const LinformerConfig& config,
                                           int64_t out);

}  // namespace longbow
