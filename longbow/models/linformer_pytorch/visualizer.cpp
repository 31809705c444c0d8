#include "longbow/models/linformer_pytorch/visualizer.h"

#include <ATen/ATen.h>

namespace longbow {

Visualizer::Visualizer(std::shared_ptr<Linformer> net)
    : net_(net), run_([net](const Tensor& x, const LinformerInputs& i) { (*net)(x, i); }) {}

Visualizer::Visualizer(std::shared_ptr<LinformerLM> net)
    : net_(net->linformer()),
      run_([net](const Tensor& x, const LinformerInputs& i) { (*net)(x, i); }) {}

std::vector<AttentionMap> Visualizer::operator()(const Tensor& x, LinformerInputs inputs,
                                                 int64_t n_limit) const {
  const at::NoGradGuard no_grad;
  Tensors found;
  inputs.maps = &found;
  run_(x, inputs);
  std::vector<AttentionMap> maps;
  for (const auto& place : net_->attentions()) {
    auto weights = found.at(place.path)[0].to(at::kCPU, at::kFloat);  // [H, N, R]
    if (n_limit > 0) weights = weights.narrow(1, 0, std::min(n_limit, weights.size(1)));
    for (int64_t h = 0; h < weights.size(0); ++h) {
      const auto one = weights[h].contiguous();
      const auto* data = one.const_data_ptr<float>();
      maps.push_back({place.layer, h, place.cross, one.size(0), one.size(1),
                      std::vector<float>(data, data + one.numel())});
    }
  }
  return maps;
}

}  // namespace longbow
