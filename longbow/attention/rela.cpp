// ReLA, rectified linear attention (Zhang, Titov and Sennrich, 2021, arXiv:2104.07012): the softmax
// gives way to a relu, which makes the weights truly sparse, and a norm over all heads of a token
// stands in for the missing division:
//   h_i = sum_j relu(q_i . k_j / sqrt D) v_j,   o_i = gain * h_i / sqrt(mean_c h_ic^2 + eps),
// times sigmoid(gate * h_i) in the gated form (ReLA-g). A query whose scores are all negative reads
// zero. Without a row sum, pieces of queries need nothing from each other: `tiled` keeps the
// weights of one piece and computes them again in the backward pass, `naive` is the formula as it
// stands.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

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
    "plain; i: the gain starts small and signed; g: a sigmoid gate beside the gain");
  v("epsilon", c.epsilon, "added to the mean square under the root", above(0));
  v("form", c.form, "pieces of queries, or the formula with its N x M weights");
  v("dropout", c.dropout, "rate on the attention weights; above 0, training uses the naive form",
    range(0, 0.99));
}

constexpr int64_t kPiece = 256;  // rows of weights that are stored at a time

using torch::autograd::AutogradContext, torch::autograd::variable_list;

// The queries in pieces of kPiece rows, and the weights of a piece in a buffer that all share.
class Pieces {
 public:
  Pieces(const Tensor& q, const Tensor& k, const Tensor& hidden, bool causal)
      : q_(q), k_(k), hidden_(hidden), causal_(causal), buffer_(room()) {}

  // One row of weights for each query of a piece, over the keys that some query of it may see.
  Tensor room() const {
    return at::empty({q_.size(0) * std::min(kPiece, q_.size(1)) * k_.size(1)}, q_.options());
  }

  // body(first, count, keys, weights [G, count, keys]).
  template <class F>
  void each(const F& body) const {
    const int64_t n = q_.size(1), m = k_.size(1);
    for (int64_t first = 0; first < n; first += kPiece) {
      const int64_t count = std::min(kPiece, n - first), last = first + count + m - n;
      const int64_t keys = causal_ ? std::clamp<int64_t>(last, 0, m) : m;
      if (keys == 0) continue;
      auto a = shaped(buffer_, count, keys);
      at::bmm_out(a, q_.narrow(1, first, count), k_.narrow(1, 0, keys).transpose(1, 2));
      a.relu_();
      if (causal_) a.tril_(first + m - n);
      if (hidden_.defined())
        a.unflatten(0, {hidden_.size(0), -1}).masked_fill_(hidden_.narrow(3, 0, keys), 0);
      body(first, count, keys, a);
    }
  }

  Tensor shaped(const Tensor& room, int64_t count, int64_t keys) const {
    return room.narrow(0, 0, q_.size(0) * count * keys).view({q_.size(0), count, keys});
  }

 private:
  Tensor q_, k_, hidden_;
  bool causal_;
  Tensor buffer_;
};

// relu(q k^T) v. q [G, N, D], k and v [G, M, D], padded [B, 1, 1, M] bool; G = B H.
struct Tiled : torch::autograd::Function<Tiled> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::optional<Tensor>& padded, bool causal) {
    const auto hidden = padded.value_or(Tensor());
    context->save_for_backward({q, k, v, hidden});
    context->saved_data["causal"] = causal;
    const auto h = at::zeros_like(q);
    Pieces(q, k, hidden, causal).each([&](int64_t first, int64_t count, int64_t keys, auto& a) {
      auto rows = h.narrow(1, first, count);
      at::bmm_out(rows, a, v.narrow(1, 0, keys));
    });
    return h;
  }

  // d a = (d h v^T) where a > 0, which hidden pairs are not.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "rela: the tiled form has no second derivative; form: naive has");
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2];
    const auto dh = gradients[0].contiguous(), dq = at::zeros_like(q), dk = at::zeros_like(k),
               dv = at::zeros_like(v);
    const Pieces pieces(q, k, saved[3], context->saved_data["causal"].toBool());
    const auto room = pieces.room();
    pieces.each([&](int64_t first, int64_t count, int64_t keys, auto& a) {
      const auto rows = dh.narrow(1, first, count);
      dv.narrow(1, 0, keys).baddbmm_(a.transpose(1, 2), rows);
      auto da = pieces.shaped(room, count, keys), dq_rows = dq.narrow(1, first, count);
      at::bmm_out(da, rows, v.narrow(1, 0, keys).transpose(1, 2));
      at::threshold_backward_out(da, da, a, 0);
      at::bmm_out(dq_rows, da, k.narrow(1, 0, keys));
      dk.narrow(1, 0, keys).baddbmm_(da.transpose(1, 2), q.narrow(1, first, count));
    });
    return {dq, dk, dv, Tensor(), Tensor()};
  }
};

class ReLA : public AttentionImpl {
 public:
  ReLA(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const std::vector<int64_t> width = {site.shape.inner()};
    const double bound = std::sqrt(3.0 / static_cast<double>(width[0]));
    gain_ = parameter(
        "gain",
        config.norm == Norm::i ? initial_uniform(site, "gain", width, bound) : at::ones(width),
        {.decay = false});
    if (config.norm == Norm::g)
      gate_ = parameter("gate", initial_uniform(site, "gate", width, bound), {.decay = false});
  }

  Tensor attend(const Heads& heads, Context& context) override {
    const bool dropping = is_training() && config_.dropout > 0;
    const auto& keep = context.mask.keep;
    if (config_.form == Form::naive || dropping || context.maps) {
      const auto visible =
          visible_pairs(context.mask, heads.q.size(2), heads.k.size(2), heads.q.device());
      return normalised(read(heads.q, heads.k, heads.v, visible, context), heads);
    }
    std::optional<Tensor> hidden;
    if (keep.defined()) hidden = keep.logical_not().unsqueeze(1).unsqueeze(1);  // [B, 1, 1, M]
    const auto flat = [](const Tensor& x) { return x.to(wide(x)).flatten(0, 1).contiguous(); };
    const auto h = Tiled::apply(flat(heads.q) * scale_, flat(heads.k), flat(heads.v), hidden,
                                context.mask.causal);
    return normalised(h.view(heads.q.sizes()), heads);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      return normalised(read(piece.q, cached.k, cached.v, cached.visible, inner), piece);
    });
  }

 private:
  // Sums over keys are unbounded, so scores and sums are float32 at least.
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
              Context& context) {
    const auto type = wide(q);
    auto weights = (q.to(type) * scale_).matmul(k.to(type).transpose(-2, -1)).relu();  // [B,H,N,M]
    if (visible.defined()) weights = weights.masked_fill(visible.logical_not(), 0);
    if (context.maps) (*context.maps)[path_] = weights.detach();
    return dropout(weights, config_.dropout, is_training(), context, path_ + ".dropout")
        .matmul(v.to(type));
  }

  // The mean square runs over all heads of a token; channel c of the gain belongs to head c div D.
  Tensor normalised(const Tensor& h, const Heads& heads) const {
    const auto by_head = [&](const Tensor& x) {
      return x.to(h.scalar_type()).view({h.size(1), 1, h.size(3)});
    };
    auto y = by_head(gain_) * h * (h.square().mean({1, 3}, true) + config_.epsilon).rsqrt();
    if (gate_.defined()) y = y * (by_head(gate_) * h).sigmoid();
    return y.to(heads.v.scalar_type());
  }

  Config config_;
  std::string path_;
  double scale_;
  Tensor gain_, gate_;  // [H D]
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
