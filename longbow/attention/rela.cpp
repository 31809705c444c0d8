// ReLA, rectified linear attention (Zhang, Titov and Sennrich, 2021, arXiv:2104.07012): the softmax
// gives way to a relu, which makes the weights truly sparse, and a norm over all heads of a token
// stands in for the missing division:
//   h_i = sum_j relu(q_i . k_j / sqrt D) v_j,   o_i = gain * h_i / sqrt(mean_c h_ic^2 + eps),
// times sigmoid(gate * h_i) in the gated form (ReLA-g). A query whose scores are all negative reads
// zero. Without a row sum, tiles of weights need nothing from each other: `tiled` keeps one of them
// and computes it again in the backward pass, on a GPU by kernels; `naive` is the formula as it
// stands.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/tiles.h"
#include "longbow/ops/rms_gate.h"

namespace longbow {
namespace {

enum class Norm { plain, i, g };
constexpr std::array<std::string_view, 3> names_of(Norm) {
  return {"plain", "i", "g"};
}
enum class Form { tiled, naive };
constexpr std::array<std::string_view, 2> names_of(Form) {
  return {"tiled", "naive"};
}

struct Config {
  Norm norm = Norm::g;
  double epsilon = 1e-6;
  Form form = Form::tiled;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("norm", c.norm,
    "plain; i: the gain starts small and signed; g: a sigmoid gate in addition to the gain");
  v("epsilon", c.epsilon, "added to the mean square under the root", at_least(1e-30));
  v("form", c.form, "tiles of queries and keys, or the formula with its N x M weights");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class ReLA : public AllPairs {
 public:
  ReLA(const Site& site, const Config& config) : AllPairs(site, config.dropout), config_(config) {
    const std::vector<int64_t> width = {site.shape.inner()};
    const double bound = std::sqrt(3.0 / static_cast<double>(width[0]));
    gain_ = parameter(
        "gain",
        config.norm == Norm::i ? initial_uniform(site, "gain", width, bound) : at::ones(width),
        {.decay = false});
    if (config.norm == Norm::g)
      gate_ = parameter("gate", initial_uniform(site, "gate", width, bound), {.decay = false});
  }

 protected:
  // Sums over keys are unbounded, so scores and sums are float32 at least.
  Tensor read(const Heads& heads, const Seen& seen, Context& context) override {
    const auto sight = seen.sight(scale_);
    const bool range = heads.q.scalar_type() != at::kHalf;  // of the sums' gradients, too
    if (config_.form == Form::tiled && !context.maps && !drops() && sight && range &&
        has_pair_kernel(heads.q, heads.k, heads.v))
      return normalised(relu_product(heads.q, heads.k, heads.v, *sight), heads);
    if (config_.form == Form::tiled && !context.maps)
      return normalised(
          tiled_relu(heads.q, heads.k, heads.v, seen, {}, weighing(), context, scale_), heads);
    const auto q = scaled(heads.q);
    const auto k = heads.k.to(q.scalar_type()), v = heads.v.to(q.scalar_type());
    const auto visible = seen.pairs(heads);
    auto weights = q.matmul(k.transpose(-2, -1)).relu();  // [B, H, N, M]
    if (visible.defined()) weights = weights.masked_fill(visible.logical_not(), 0);
    if (context.maps) show(weights.detach(), visible, *context.maps);
    const auto kept = dropout(weights, config_.dropout, is_training(), context, path_ + ".dropout");
    return normalised(kept.matmul(v), heads);
  }

 private:
  // Beside the weights, for each query and head: the share of zeros among the weights of visible
  // keys, and 1 where there is no other.
  void show(const Tensor& weights, const Tensor& visible, Tensors& maps) const {
    const auto type = weights.scalar_type();
    const auto all = visible.defined() ? visible.expand_as(weights) : at::ones_like(weights);
    const auto count = all.to(type).sum(-1), positive = (weights > 0).to(type).sum(-1);
    maps[path_] = weights;
    maps[path_ + ".zeros"] = (count - positive) / count.clamp_min(1);  // [B, H, N]
    maps[path_ + ".null"] = (positive == 0).to(type);                  // [B, H, N]
  }

  // The mean square runs over all heads of a token; channel c of the gain belongs to head c div D.
  Tensor normalised(const Tensor& h, const Heads& heads) const {
    if (config_.form == Form::tiled && h.is_cuda()) {  // the other form has a second derivative
      if (const auto rows = merge_heads(h); has_rms_gate_kernel(rows))
        return split_heads(rms_gate(rows, gain_, gate_, config_.epsilon, heads.v.scalar_type()),
                           h.size(1));
    }
    const auto by_head = [&](const Tensor& x) {
      return x.to(h.scalar_type()).view({h.size(1), 1, h.size(3)});
    };
    auto y = by_head(gain_) * h / (h.square().mean({1, 3}, true) + config_.epsilon).sqrt();
    if (gate_.defined()) y = y * (by_head(gate_) * h).sigmoid();
    return y.to(heads.v.scalar_type());
  }

  Config config_;
  Tensor gain_, gate_;  // [H D]
};

Promises promises(const Config& c) {
  return AllPairs::promised(c.form == Form::naive);
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<ReLA>(site, c);
}

}  // namespace

Mechanism rela_mechanism() {
  return over_heads<Config>(
      {.name = "rela",
       .family = "all pairs",
       .paper = "arXiv:2104.07012",
       .cost = "O(N M D)",
       .summary = "A relu in place of the softmax: sparse weights, and a norm instead of the row "
                  "sum.",
       .exact = "plain and i: scaling all queries changes nothing (eps to 0); never softmax",
       .variants = {{"plain", "{norm: plain}"},
                    {"i", "{norm: i, epsilon: 1e-4}"},
                    {"naive", "{form: naive}"}}},
      promises, make);
}

}  // namespace longbow
