// RealFormer (He et al., 2020, arXiv:2012.11747): every layer adds its scores to those of the
// layers below, head by head, and weighs by the sum:
//   S_l = q_l k_l^T / sqrt D + S_(l-1),   o_l = softmax(S_l) v_l.
// The sum is one product of wider heads,
//   S_l = [q_0 | ... | q_l] [k_0 | ... | k_l]^T / sqrt D,
// so layers hand queries and keys upwards, never an N x M matrix. One layer alone is softmax.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

struct Config {
  bool mean = false;
  bool detach = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("mean", c.mean, "weigh by the mean of the layers' scores in place of their sum");
  v("detach", c.detach, "no gradient from a layer into the scores of the layers below");
  v("dropout", c.dropout,
    "rate on the attention weights; above 0, training stores the N x M weights", range(0, 0.99));
}

class RealFormer : public AttentionImpl {
 public:
  RealFormer(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        chain_(site.cross ? "realformer.cross." : "realformer."),
        lowest_(site.layer == 0),
        head_(site.shape.head()) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const auto q = chained("q", heads.q, context);  // [B, H, N, (l + 1) D]
    const auto k = chained("k", heads.k, context);  // [B, H, M, (l + 1) D]
    const bool dropping = is_training() && config_.dropout > 0;
    if (!dropping && !context.maps) {
      // The fused kernels want values as wide as keys.
      const auto v = at::constant_pad_nd(heads.v, {0, k.size(3) - head_});
      const Heads wider = {q, k, v, heads.x, heads.source};
      return fused_attention(wider, context.mask, scale(q)).narrow(3, 0, head_);
    }
    const auto visible = visible_pairs(context.mask, q.size(2), k.size(2), q.device());
    return read(q, k, heads.v, visible, context);
  }

  // The state is this layer's own cache; an extension takes those of the layers below from them.
  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    constexpr int64_t kPiece = 256;  // a long extension stores 256 rows of scores at a time
    auto wider = heads;
    wider.q = chained("q", heads.q, context);
    const auto y = in_pieces(wider, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      const auto k = chained("k", cached.k, inner);  // [B, H, capacity + 1, (l + 1) D]
      return read(piece.q, k, cached.v, cached.visible, inner);
    });
    (void)chained("k", state.lane.at("keys"), context);
    return y;
  }

 private:
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
              Context& context) const {
    const Weighing weighing = {config_.dropout, is_training(), path_};
    return softmax_read(q * scale(q), k, v, visible, weighing, context);
  }

  // The rows of this layer beside those of the layers below, and so to the layers above. Self-
  // and cross-attention are two chains; layer 0 begins anew, whatever stack ran before.
  Tensor chained(const std::string& name, const Tensor& rows, Context& context) const {
    auto& carried = context.carry[chain_ + name];
    if (lowest_ || !carried.defined()) return carried = rows;
    TORCH_CHECK(carried.sizes().slice(0, 3) == rows.sizes().slice(0, 3), "realformer: ", name,
                " is ", rows.sizes(), ", but the layers below carry ", carried.sizes());
    return carried = at::cat({config_.detach ? carried.detach() : carried, rows}, 3);
  }

  double scale(const Tensor& q) const {
    const double layers = config_.mean ? static_cast<double>(q.size(3) / head_) : 1;
    return 1 / (layers * std::sqrt(static_cast<double>(head_)));
  }

  Config config_;
  std::string path_, chain_;
  bool lowest_;
  int64_t head_;
};

Promises promises(const Config& c) {
  return {.future = Future::exact,
          .cross = true,
          .decode = true,
          .time = 2,
          .memory = c.dropout > 0 ? 2.0 : 1.0};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<RealFormer>(site, c);
}

}  // namespace

Mechanism realformer_mechanism() {
  return over_heads<Config>(
      {.name = "realformer",
       .family = "exact",
       .paper = "arXiv:2012.11747",
       .cost = "O(N M D (l + 1)) in layer l",
       .summary = "Every layer adds its scores to those of the layers below.",
       .exact = "one layer: softmax; a stack: softmax over concatenated heads",
       .variants = {{"mean", "{mean: true}"},
                    {"detach", "{detach: true}"},
                    {"dropout", "{dropout: 0.1}"}}},
      promises, make);
}

}  // namespace longbow
