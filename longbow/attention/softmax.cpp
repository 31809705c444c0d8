// Softmax attention (Vaswani et al., 2017, arXiv:1706.03762), the exact one that all others are
// measured against:
//   o_i = sum_j softmax_j(q_i . k_j / sqrt D) v_j over the keys that are visible to i.
// `fused` streams the keys past each query and stores no N x M tensor; `naive` is the formula as it
// stands.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

enum class Form { fused, naive };
constexpr std::array<std::string_view, 2> names_of(Form) {
  return {"fused", "naive"};
}

struct Config {
  Form form = Form::fused;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form, "fused kernels, or the formula with its N x M scores");
  v("dropout", c.dropout, "rate on the attention weights; above 0, training uses the naive form",
    range(0, 0.99));
}

class Softmax : public AttentionImpl {
 public:
  Softmax(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const bool dropping = is_training() && config_.dropout > 0;
    if (config_.form == Form::fused && !dropping && !context.maps)
      return fused_attention(heads, context.mask, scale_);
    const auto visible =
        visible_pairs(context.mask, heads.q.size(2), heads.k.size(2), heads.q.device());
    return read(heads.q, heads.k, heads.v, visible, context);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    constexpr int64_t kPiece = 256;  // a long extension stores 256 rows of scores at a time
    return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      return read(piece.q, cached.k, cached.v, cached.visible, inner);
    });
  }

 private:
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
              Context& context) {
    return softmax_read(q * scale_, k, v, visible, {config_.dropout, is_training(), path_},
                        context);
  }

  Config config_;
  std::string path_;
  double scale_;
};

Promises promises(const Config& c) {
  const bool stored = c.form == Form::naive || c.dropout > 0;
  return {.future = Future::exact,
          .cross = true,
          .decode = true,
          .time = 2,
          .memory = stored ? 2.0 : 1.0};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Softmax>(site, c);
}

}  // namespace

Mechanism softmax_mechanism() {
  return over_heads<Config>(
      {.name = "softmax",
       .family = "exact",
       .paper = "arXiv:1706.03762",
       .cost = "O(N M D)",
       .summary = "Every query weighs every key; the exact form the others approximate.",
       .exact = "itself",
       .variants = {{"naive", "{form: naive}"}}},
      promises, make);
}

}  // namespace longbow
