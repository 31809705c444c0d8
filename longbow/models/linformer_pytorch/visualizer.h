#pragma once
#include "longbow/models/linformer_pytorch/linformer.h"

namespace longbow {

// What one head weighs for the first sequence of a batch: row by row, queries times slots (tokens
// with full attention).
struct AttentionMap {
  int64_t layer = 0, head = 0;
  bool cross = false;
  int64_t queries = 0, slots = 0;
  std::vector<float> weights = {};
};

// The attention maps of all heads, layer by layer. Plain numbers; `longbow/report/draw/heat_map.h`
// draws them.
class Visualizer {
 public:
  explicit Visualizer(std::shared_ptr<Linformer> net);
  explicit Visualizer(std::shared_ptr<LinformerLM> net);
  // Runs the net on x without gradients; of each map only the first `n_limit` queries, 0 = all.
  std::vector<AttentionMap> operator()(const Tensor& x, LinformerInputs inputs = {},
                                       int64_t n_limit = 0) const;

 private:
  std::shared_ptr<Linformer> net_;
  std::function<void(const Tensor&, const LinformerInputs&)> run_;
};

}  // namespace longbow
