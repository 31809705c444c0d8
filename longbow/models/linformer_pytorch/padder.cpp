#include "longbow/models/linformer_pytorch/padder.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

// [B, N, …] -> [B, length, …], zeros at the end.
Tensor filled_up(const Tensor& x, int64_t length) {
  const int64_t missing = length - x.size(1);
  if (missing == 0) return x;
  return x.dim() == 2 ? at::constant_pad_nd(x, {0, missing})
                      : at::constant_pad_nd(x, {0, 0, 0, missing});
}

// Which of the filled-up tokens are real; undefined when all are.
Tensor filled_mask(const Tensor& mask, const Tensor& x, int64_t length, bool masked) {
  if (mask.defined()) return filled_up(mask.to(at::kBool), length);
  if (!masked || x.size(1) == length) return {};
  return (at::arange(length, x.options().dtype(at::kLong)) < x.size(1)).expand({x.size(0), -1});
}

}  // namespace

Padder::Padder(const LinformerConfig& config, Net net, bool masked)
    : net_(std::move(net)),
      length_(config.input_size),
      memory_length_(config.embeddings_size > 0 ? config.embeddings_size : config.input_size),
      masked_(masked) {}

Padder::Padder(std::shared_ptr<Linformer> net, bool masked)
    : Padder(
          net->config(), [net](const Tensor& x, const LinformerInputs& i) { return (*net)(x, i); },
          masked) {
  register_module("net", net);
}

Padder::Padder(std::shared_ptr<LinformerLM> net, bool masked)
    : Padder(
          net->config(), [net](const Tensor& x, const LinformerInputs& i) { return (*net)(x, i); },
          masked) {
  register_module("net", net);
}

Tensor Padder::operator()(const Tensor& x, const LinformerInputs& inputs) {
  const auto fits = [](const char* name, const Tensor& t, int64_t length) {
    TORCH_CHECK(t.dim() >= 2 && t.size(1) <= length, "padder: ", name, " is ", t.sizes(),
                ", but the net takes at most ", length, " tokens");
  };
  fits("x", x, length_);
  auto given = inputs;
  given.input_mask = filled_mask(inputs.input_mask, x, length_, masked_);
  if (const auto& memory = inputs.embeddings; memory.defined()) {
    fits("embeddings", memory, memory_length_);
    given.embeddings = filled_up(memory, memory_length_);
    given.embeddings_mask = filled_mask(inputs.embeddings_mask, memory, memory_length_, masked_);
  }
  return net_(filled_up(x, length_), given).narrow(1, 0, x.size(1));
}

}  // namespace longbow
