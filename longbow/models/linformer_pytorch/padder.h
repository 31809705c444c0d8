#pragma once
#include "longbow/models/linformer_pytorch/linformer.h"

namespace longbow {

// Takes inputs shorter than a net's input_size: fills them up (with zeros, or token 0), hides what
// it added, and gives back as many rows as came in. Embeddings of a decoder are filled up too.
class Padder : public Part {
 public:
  // masked = false: what is added takes part, as in linformer-pytorch.
  explicit Padder(std::shared_ptr<Linformer> net, bool masked = true);
  explicit Padder(std::shared_ptr<LinformerLM> net, bool masked = true);
  Tensor operator()(const Tensor& x, const LinformerInputs& inputs = {});

 private:
  using Net = std::function<Tensor(const Tensor&, const LinformerInputs&)>;
  Padder(const LinformerConfig& config, Net net, bool masked);
  Net net_;
  int64_t length_, memory_length_;
  bool masked_;
};

}  // namespace longbow
