// ABC, attention with bounded-memory control (Peng et al., 2021, arXiv:2110.02488): tokens are
// written into R slots with learned weights, and queries read the slots by softmax:
//   K~_r = sum_j phi_jr k_j,   V~_r = sum_j phi_jr v_j,   o_i = softmax(q_i K~^T / sqrt D) V~,
//   phi_jr = exp(a_jr) / z_r,   z_r = sum_j exp(a_jr),   a_j = W x_j   (the paper's ABC-MLP).
// Causally z, K~ and V~ are running sums, different for each query; they are also the decoding
// state. Exact when R = M and every token has a slot of its own.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"
#include "longbow/ops/causal_product.h"

namespace longbow {
namespace {

// Logits of the writing beyond this are cut off, so that exp needs no running maximum: sums of any
// length stay in the range of float32.
constexpr double kSteepest = 32;

struct Config {
  int64_t slots = 64;
  bool share_heads = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("slots", c.slots, "slots that keys and values are written into", range(1, 65536));
  v("share_heads", c.share_heads, "all heads write with the same weights");
  v("dropout", c.dropout, "rate on the weights of reading", range(0, 0.99));
}

class Abc : public AttentionImpl {
 public:
  Abc(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const auto& shape = site.shape;
    // A bias would be the same for all tokens and cancel.
    control_ = parameter(
        "control", initial_matrix(site, "control", config.slots * (config.share_heads ? 1 : heads_),
                                  site.cross ? shape.source_width() : shape.width));
  }

  Tensor attend(const Heads& heads, Context& context) override {
    const auto& keep = context.mask.keep;
    if (context.mask.causal) {
      const int64_t extra = heads.k.size(2) - heads.q.size(2);  // aligned at the end
      const auto q = at::constant_pad_nd(heads.q, {0, 0, extra, 0});
      const auto y =
          read({q, heads.k, heads.v, heads.x, heads.source}, weights(heads, context), {}, context);
      return at::constant_pad_nd(y, {0, 0, -extra, 0});
    }
    const auto visible = keep.defined() ? keep.unsqueeze(1).unsqueeze(1) : keep;
    const auto phi = masked_softmax(logits(heads).transpose(-2, -1), visible);  // [B, H, R, M]
    const auto slots = [&](const Tensor& rows) {
      return phi.matmul(rows.to(phi.scalar_type())).to(rows.scalar_type());  // [B, H, R, D]
    };
    return softmax_read(heads.q * scale_, slots(heads.k), slots(heads.v), {},
                        {config_.dropout, is_training(), path_}, context);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    const auto options = empty.k.options().dtype(wide(empty.k));
    const int64_t b = empty.k.size(0), d = empty.k.size(3), r = config_.slots;
    state.add("keys", {b, heads_, r, d}, options);
    state.add("values", {b, heads_, r, d}, options);
    state.add("mass", {b, heads_, 1, r}, options);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto w = weights(heads, context);
    const auto y = read(heads, w, state.lane, context);
    auto& lane = state.lane;
    lane["keys"] = lane.at("keys") + w.transpose(-2, -1).matmul(heads.k.to(w.scalar_type()));
    lane["values"] = lane.at("values") + w.transpose(-2, -1).matmul(heads.v.to(w.scalar_type()));
    lane["mass"] = lane.at("mass") + w.sum(2, true);
    return y;
  }

 private:
  // a, float32 at least: [B, H, M, R].
  Tensor logits(const Heads& heads) const {
    const auto a =
        split_heads(at::linear(heads.source, control_), config_.share_heads ? 1 : heads_);
    return a.to(wide(a)).clamp(-kSteepest, kSteepest).expand({-1, heads_, -1, -1});
  }

  // exp(a), zero for padded tokens.
  Tensor weights(const Heads& heads, const Context& context) const {
    const auto w = logits(heads).exp();
    const auto& keep = context.mask.keep;
    return keep.defined() ? w.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), 0) : w;
  }

  // Query t reads what was written up to t, after what `past` holds. With w = exp(a):
  //   q_t . K~_r = sum_{i <= t} (q_t . k_i) w_ir / z_tr,   o_t = sum_{i <= t} (p_t / z_t . w_i)
  //   v_i.
  Tensor read(const Heads& heads, const Tensor& w, const Tensors& past, Context& context) {
    const auto type = w.scalar_type();
    const auto q = heads.q.to(type) * scale_, k = heads.k.to(type), v = heads.v.to(type);
    const auto ones = at::ones_like(w.narrow(-1, 0, 1));
    auto z = causal_product(ones, ones, w), scores = causal_product(q, k, w);  // [B, H, N, R]
    if (!past.empty()) {
      z = z + past.at("mass");
      scores = scores + q.matmul(past.at("keys").transpose(-2, -1));
    }
    z = z.clamp_min(std::exp(-kSteepest - 1));  // less than any token writes: nothing was written
    const auto p = masked_softmax(scores / z, {});
    if (context.maps) (*context.maps)[path_] = p.detach();
    const auto reading =
        dropout(p, config_.dropout, is_training(), context, path_ + ".dropout") / z;
    auto y = causal_product(reading, w, v);
    if (!past.empty()) y = y + reading.matmul(past.at("values"));
    return y.to(heads.v.scalar_type());
  }

  Config config_;
  int64_t heads_;
  std::string path_;
  double scale_;
  Tensor control_;  // [H R, Cm] or [R, Cm]
};

Promises promises(const Config&) {
  return {.future = Future::exact, .cross = true, .decode = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Abc>(site, c);
}

}  // namespace

Mechanism abc_mechanism() {
  return over_heads<Config>(
      {.name = "abc",
       .family = "low rank",
       .paper = "arXiv:2110.02488",
       .cost = "O(N R D)",
       .summary = "Tokens are written into a fixed number of slots with learned weights; queries "
                  "read the slots.",
       .exact =
           "a slot for every token, bidirectional: softmax; no control: the mean of the values",
       .variants = {{"few", "{slots: 5}"}, {"share_heads", "{slots: 16, share_heads: true}"}}},
      promises, make);
}

}  // namespace longbow
