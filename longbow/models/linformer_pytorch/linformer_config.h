#pragma once
// What a Linformer of linformer-pytorch is made from and called with.
#include <array>
#include <optional>
#include <string_view>

#include "longbow/nn/contract/context.h"
#include "longbow/nn/layers/feed_forward.h"
#include "longbow/nn/slots/length_config.h"

namespace longbow {

// What is computed again in the backward pass: nothing; every sub-layer; and in it every head.
enum class CheckpointLevel { C0, C1, C2 };
constexpr std::array<std::string_view, 3> names_of(CheckpointLevel) {
  return {"C0", "C1", "C2"};
}

enum class ProjectionMethod { learnable, convolution, no_params };
constexpr std::array<std::string_view, 3> names_of(ProjectionMethod) {
  return {"learnable", "convolution", "no_params"};
}

struct LinformerConfig {
  int64_t input_size = 0, channels = 0, dim_k = 0, dim_ff = 256;
  std::optional<int64_t> dim_d = {};
  double dropout_ff = 0.15;
  int64_t nhead = 4, depth = 1;
  double dropout = 0.1;
  Activation activation = Activation::gelu;
  CheckpointLevel checkpoint_level = CheckpointLevel::C0;
  LengthSharing parameter_sharing = LengthSharing::layerwise;
  int64_t k_reduce_by_layer = 0;
  bool full_attention = false, include_ff = true;
  std::optional<int64_t> w_o_intermediate_dim = {};
  bool decoder_mode = false, causal = false;
  ProjectionMethod method = ProjectionMethod::learnable;
  std::optional<int64_t> ff_intermediate = {};
  int64_t embeddings_size = 0, embeddings_channels = 0;
  bool compatible = false;
};
template <class V>
void fields(V& v, LinformerConfig& c) {
  v("input_size", c.input_size, "tokens of every sequence", at_least(0));
  v("channels", c.channels, "model width", at_least(0));
  v("dim_k", c.dim_k, "slots that keys and values are projected to", at_least(0));
  v("dim_ff", c.dim_ff, "inner width of a feed-forward layer", at_least(1));
  v("dim_d", c.dim_d, "width of a head; none = channels / nhead", at_least(1));
  v("dropout_ff", c.dropout_ff, "rate in a feed-forward layer", range(0, 0.99));
  v("nhead", c.nhead, "attention heads", at_least(1));
  v("depth", c.depth, "layers", at_least(1));
  v("dropout", c.dropout, "rate on attention weights and outputs", range(0, 0.99));
  v("activation", c.activation, "of a feed-forward layer: gelu or relu");
  v("checkpoint_level", c.checkpoint_level, "what the backward pass computes again");
  v("parameter_sharing", c.parameter_sharing, "who shares the projections E and F");
  v("k_reduce_by_layer", c.k_reduce_by_layer, "each layer has this many slots fewer", at_least(0));
  v("full_attention", c.full_attention, "every token reads every token");
  v("include_ff", c.include_ff, "a feed-forward layer after each attention");
  v("w_o_intermediate_dim", c.w_o_intermediate_dim, "inner width of the output projection",
    at_least(1));
  v("decoder_mode", c.decoder_mode, "a second attention in each layer, to embeddings");
  v("causal", c.causal, "each token attends only to itself and earlier tokens");
  v("method", c.method, "how a sequence becomes slots");
  v("ff_intermediate", c.ff_intermediate, "width between the layers", at_least(1));
  v("embeddings_size", c.embeddings_size, "tokens of the embeddings; 0 = input_size", at_least(0));
  v("embeddings_channels", c.embeddings_channels, "width of the embeddings; 0 = channels",
    at_least(0));
  v("compatible", c.compatible, "compute what linformer-pytorch does, its leaks included");
}

// What a call may bring beside x.
struct LinformerInputs {
  Tensor input_mask = {};       // [B, N] bool, true = a real token
  Tensor embeddings = {};       // [B, M, Cm], in decoder_mode
  Tensor embeddings_mask = {};  // [B, M] bool
  Random random = {};           // wanted while training with a dropout rate
  Tensors* maps = nullptr;      // filled with the attention weights [B, H, N, slots], by layer
};

}  // namespace longbow
