// RealFormer (He et al., 2020, arXiv:2012.11747): every layer adds its scores to those of the
// layers below, head by head, and weighs by the sum:
//   S_l = q_l k_l^T / sqrt D + S_(l-1),   o_l = softmax(S_l) v_l.
// The sum is one product of wider heads,
//   S_l = [q_0 | ... | q_l] [k_0 | ... | k_l]^T / sqrt D,
// so layers hand queries and keys upwards (`concatenated`), never an N x M matrix; only while
// decoding a few tokens hand up their rows of S. In the form `scores`, the paper's, all tokens do:
// layer l then costs as much as the first, and stores N x M numbers. One layer alone is softmax.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/tiles.h"

namespace longbow {
namespace {

enum class Form { concatenated, scores };
constexpr std::array<std::string_view, 2> names_of(Form) {
  return {"concatenated", "scores"};
}

struct Config {
  Form form = Form::concatenated;
  bool mean = false;
  bool detach_prev = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form,
    "layers hand queries and keys upwards, or the N x M scores, which costs less in deep stacks "
    "over short sequences");
  v("mean", c.mean, "weigh by the mean of the layers' scores in place of their sum");
  v("detach_prev", c.detach_prev, "no gradient from a layer into the scores of the layers below");
  v("dropout", c.dropout, "rate on the attention weights; scores are carried undropped",
    range(0, 0.99));
}

class RealFormer : public AllPairs {
 public:
  RealFormer(const Site& site, const Config& config)
      : AllPairs(site, config.dropout),
        config_(config),
        chain_(site.cross ? "realformer.cross." : "realformer."),
        lowest_(site.layer == 0),
        head_(site.shape.head()) {}

  Tensor attend(const Heads& heads, Context& context) override {
    if (config_.form == Form::scores)
      return read_scores(heads, Seen::by(context.mask).pairs(heads), context);
    auto wider = heads;
    wider.q = chained("q", heads.q, context);  // [B, H, N, (l + 1) D]
    wider.k = chained("k", heads.k, context);  // [B, H, M, (l + 1) D]
    if (!context.maps && !drops() && heads.q.is_cuda())
      return fused_attention(wider, context.mask, scale_ / divisor(wider));
    return read(wider, Seen::by(context.mask), context);
  }

  // The state is this layer's own cache; an extension takes the rest from the layers below.
  Tensor grow(const Heads& heads, State& state, Context& context) override {
    if (config_.form == Form::scores || heads.q.size(2) <= kFew) {
      const auto cached = grow_cache(heads, state, context);
      return read_scores({heads.q, cached.k, cached.v, heads.x, heads.source}, cached.visible,
                         context);
    }
    auto wider = heads;
    wider.q = chained("q", heads.q, context);
    const auto y = in_pieces(wider, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      const auto k = chained("k", cached.k, inner);  // [B, H, capacity + 1, (l + 1) D]
      return read({piece.q, k, cached.v, piece.x, piece.source}, {.visible = cached.visible},
                  inner);
    });
    (void)chained("k", state.lane.at("keys"), context);
    return y;
  }

 protected:
  Tensor read(const Heads& heads, const Seen& seen, Context& context) override {
    const double layers = divisor(heads);
    if (context.maps)  // who looks at the weights wants all of them
      return softmax_read(heads.q * (scale_ / layers), heads.k, heads.v, seen.pairs(heads),
                          weighing(), context);
    return tiled_softmax(heads.q, heads.k, heads.v, seen, {}, weighing(), context, scale_ / layers)
        .to(heads.v.scalar_type());
  }

 private:
  // What the sum of scores is divided by.
  double divisor(const Heads& wider) const {
    return config_.mean ? static_cast<double>(wider.q.size(3) / head_) : 1;
  }

  // The rows of this layer beside those of the layers below, and so to the layers above. Self-
  // and cross-attention are two chains; layer 0 begins anew, whatever stack ran before.
  Tensor chained(const std::string& name, const Tensor& rows, Context& context) const {
    auto& carried = context.carry[chain_ + name];
    if (lowest_ || !carried.defined()) return carried = rows;
    check(carried, name, rows);
    return carried = at::cat({config_.detach_prev ? carried.detach() : carried, rows}, 3);
  }

  static void check(const Tensor& carried, const std::string& name, const Tensor& rows) {
    TORCH_CHECK(carried.sizes().slice(0, 3) == rows.sizes().slice(0, 3), "realformer: ", name,
                " is ", rows.sizes(), ", but the layers below carry ", carried.sizes());
  }

  // Adds the scores [B, H, N, M] of this layer to those of the layers below. While decoding, few
  // tokens hand these upwards instead of all keys, which would have to be copied in every layer.
  Tensor read_scores(const Heads& heads, const Tensor& visible, Context& context) const {
    auto &carried = context.carry[chain_ + "scores"], &layers = context.carry[chain_ + "layers"];
    const auto scores = (heads.q * scale_).matmul(heads.k.transpose(-2, -1));
    const auto own = scores.to(wide(scores));
    const bool first = lowest_ || !carried.defined();
    check(first ? own : carried, "scores", own);
    carried = first ? own : own + (config_.detach_prev ? carried.detach() : carried);
    layers = first ? at::ones({}, at::kLong) : layers + 1;  // on the host, as any number
    return softmax_read(config_.mean ? carried / layers : carried, heads.v, visible, weighing(),
                        context);
  }

  static constexpr int64_t kFew = 16;  // tokens of an extension

  Config config_;
  std::string chain_;
  bool lowest_;
  int64_t head_;
};

// One layer cannot read what another hands up in another form.
OptionValues common(const Config& c, const Site&) {
  return {{"form", name_of(c.form)}};
}

Promises promises(const Config& c) {
  return AllPairs::promised(c.form == Form::scores);
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<RealFormer>(site, c);
}

}  // namespace

Mechanism realformer_mechanism() {
  auto row =
      over_heads<Config>({.name = "realformer",
                          .family = "exact",
                          .paper = "arXiv:2012.11747",
                          .cost = "O(N M D (l + 1)) in layer l",
                          .summary = "Every layer adds its scores to those of the layers below.",
                          .exact = "one layer: softmax; a stack: softmax over concatenated heads",
                          .variants = {{"mean", "{mean: true}"},
                                       {"detach_prev", "{detach_prev: true}"},
                                       {"dropout", "{dropout: 0.1}"},
                                       {"scores", "{form: scores}"},
                                       {"scores_mean", "{form: scores, mean: true}"}}},
                         promises, make);
  return with_common(row, common);
}

}  // namespace longbow
