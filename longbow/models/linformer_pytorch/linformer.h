#pragma once
// The classes of linformer-pytorch (tatp22, 0.19.3) over longbow's own mixers: the same names,
// options and defaults. docs/linformer_pytorch.md says where the two differ and why.
#include "longbow/attention/mechanism.h"
#include "longbow/models/linformer_pytorch/linformer_config.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

class LinformerLayer;

// Every sub-layer is LN(x + f(x)), with a projection of x where f changes the width: attention and
// feed-forward in turn, in decoder_mode attention to itself, feed-forward, attention to the
// embeddings, feed-forward.
class Linformer : public Part {
 public:
  explicit Linformer(const LinformerConfig& config, uint64_t seed = 0,
                     const std::string& path = "");
  Tensor operator()(const Tensor& x, const LinformerInputs& inputs = {});
  // Token by token, of a causal net: an empty state for `lanes` sequences of up to `capacity`
  // tokens (the embeddings are read here, once), and the next tokens [B, T, C] of each. Any split
  // of a sequence gives what the whole of it does.
  void start(State& state, int64_t lanes, int64_t capacity, const LinformerInputs& inputs = {});
  Tensor extend(const Tensor& x, State& state, const LinformerInputs& inputs = {});
  const LinformerConfig& config() const { return config_; }

  // The attentions in the order of the sub-layers, for those who look at them from outside.
  struct Place {
    int64_t sub_layer, layer;  // of the sub-layer in `seq`; of the layer in 0 … depth - 1
    bool cross;
    std::string path;  // under which its weights stand in LinformerInputs::maps
  };
  const std::vector<Place>& attentions() const { return attentions_; }

 private:
  void check(const Tensor& x, const LinformerInputs& inputs) const;
  LinformerConfig config_;
  std::vector<Place> attentions_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<LinformerLayer>> layers_;
};

struct LinformerLMConfig : LinformerConfig {
  LinformerLMConfig() {
    dim_k = 64;
    dim_ff = 1024;
    dropout_ff = 0.1;
    depth = 2;
    dropout = 0.05;
  }
  int64_t num_tokens = 0;
  double dropout_tokens = 0.1;
  std::optional<int64_t> emb_dim = {};
  bool return_emb = false;

  int64_t embedding_width() const { return emb_dim.value_or(channels); }
};
template <class V>
void fields(V& v, LinformerLMConfig& c) {
  fields(v, static_cast<LinformerConfig&>(c));
  v("num_tokens", c.num_tokens, "size of the vocabulary", at_least(0));
  v("dropout_tokens", c.dropout_tokens, "rate on the embeddings", range(0, 0.99));
  v("emb_dim", c.emb_dim, "width of the embeddings; none = channels", at_least(2));
  v("return_emb", c.return_emb, "give embeddings instead of logits");
}

// Embeddings and sinusoids (base 100000, the sine half before the cosine half) around a Linformer:
// [B, N] -> [B, N, num_tokens].
class LinformerLM : public Part {
 public:
  explicit LinformerLM(const LinformerLMConfig& config, uint64_t seed = 0,
                       const std::string& path = "");
  Tensor operator()(const Tensor& tokens, const LinformerInputs& inputs = {});
  void start(State& state, int64_t lanes, int64_t capacity, const LinformerInputs& inputs = {});
  Tensor extend(const Tensor& tokens, State& state, const LinformerInputs& inputs = {});
  const LinformerLMConfig& config() const { return config_; }
  const std::shared_ptr<Linformer>& linformer() const { return linformer_; }

 private:
  // Embeddings of tokens that stand at `places` [B or 1, N], at the width of the net; and back.
  Tensor opened(const Tensor& tokens, const Tensor& places, const Context& context) const;
  Tensor closed(const Tensor& x) const;
  LinformerLMConfig config_;
  std::string path_;
  Tensor words_, frequencies_;
  std::shared_ptr<Linear> project_in_, project_out_, to_logits_;
  std::shared_ptr<Linformer> linformer_;
};

// In a file the options of the two sides are enc_… and dec_…: enc_dim_k, dec_depth.
struct LinformerEncDecConfig {
  LinformerLMConfig enc = {}, dec = {};
  Activation activation = Activation::gelu;
  CheckpointLevel checkpoint_level = CheckpointLevel::C0;
  bool compatible = false;
};
template <class V>
void fields_of_a_side(V& v, LinformerLMConfig& c, const std::string& side) {
  const auto put = [&](const std::string& name, auto& value, const char* meaning,
                       const Range& limits = {}) {
    v((side + name).c_str(), value, meaning, limits);
  };
  put("num_tokens", c.num_tokens, "size of the vocabulary", at_least(0));
  put("input_size", c.input_size, "tokens of every sequence", at_least(0));
  put("channels", c.channels, "model width", at_least(0));
  put("dim_k", c.dim_k, "slots", at_least(1));
  put("dim_ff", c.dim_ff, "inner width of a feed-forward layer", at_least(1));
  put("dim_d", c.dim_d, "width of a head; none = channels / nhead", at_least(1));
  put("ff_intermediate", c.ff_intermediate, "width between the layers", at_least(1));
  put("dropout_ff", c.dropout_ff, "rate in a feed-forward layer", range(0, 0.99));
  put("nhead", c.nhead, "attention heads", at_least(1));
  put("depth", c.depth, "layers", at_least(1));
  put("dropout", c.dropout, "rate on attention weights and outputs", range(0, 0.99));
  put("parameter_sharing", c.parameter_sharing, "who shares the projections E and F");
  put("k_reduce_by_layer", c.k_reduce_by_layer, "each layer has this many slots fewer",
      at_least(0));
  put("full_attention", c.full_attention, "every token reads every token");
  put("include_ff", c.include_ff, "a feed-forward layer after each attention");
  put("w_o_intermediate_dim", c.w_o_intermediate_dim, "inner width of the output projection",
      at_least(1));
  put("emb_dim", c.emb_dim, "width of the embeddings; none = channels", at_least(2));
  put("method", c.method, "how a sequence becomes slots");
}
template <class V>
void fields(V& v, LinformerEncDecConfig& c) {
  fields_of_a_side(v, c.enc, "enc_");
  fields_of_a_side(v, c.dec, "dec_");
  v("activation", c.activation, "of a feed-forward layer: gelu or relu");
  v("checkpoint_level", c.checkpoint_level, "what the backward pass computes again");
  v("compatible", c.compatible, "compute what linformer-pytorch does, its leaks included");
}

struct LinformerEncDecInputs {
  Tensor input_mask = {}, target_mask = {};  // [B, N] bool, of the source and of the target
  Random random = {};
  Tensors* maps = nullptr;
};

// An encoder that gives embeddings and a causal decoder that reads them.
class LinformerEncDec : public Part {
 public:
  using Inputs = LinformerEncDecInputs;
  explicit LinformerEncDec(const LinformerEncDecConfig& config, uint64_t seed = 0);
  // Logits for the target tokens; without a target the source is read as one.
  Tensor operator()(const Tensor& source, const Tensor& target = {}, const Inputs& inputs = {});
  // The source is read here, once; then the next target tokens of each lane, [B, T], give logits.
  void start(State& state, const Tensor& source, int64_t capacity, const Inputs& inputs = {});
  Tensor extend(const Tensor& target, State& state) { return decoder_->extend(target, state); }
  const std::shared_ptr<LinformerLM>& encoder() const { return encoder_; }
  const std::shared_ptr<LinformerLM>& decoder() const { return decoder_; }

 private:
  bool compatible_;
  std::shared_ptr<LinformerLM> encoder_, decoder_;
};

}  // namespace longbow
