// Fastformer (Wu et al., 2021, arXiv:2108.09084): additive attention. Tokens are summed up into one
// global query and one global key per head, and every product is elementwise:
//   g = sum_i alpha_i q_i,   alpha = softmax_i(w_q . q_i / sqrt D),
//   c = sum_i beta_i p_i,    beta = softmax_i(w_k . p_i / sqrt D),   p_i = g * k_i,
//   y_i = W_r (c * v_i) + q_i.
// `running` also takes causal masks, which the paper does not: g_i and c_i are then averages over
// the tokens up to i, and p_i = g_i * k_i. That is causal and linear, but it is not the equation
// above on each prefix, where p_i would have to be formed anew from every later g.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

enum class Scope { head, full };
constexpr std::array<std::string_view, 2> names_of(Scope) {
  return {"head", "full"};
}

struct Config {
  Scope score_scope = Scope::head;
  bool share_qv = false;
  bool running = false;
};
template <class V>
void fields(V& v, Config& c) {
  v("score_scope", c.score_scope,
    "what a head's score reads: its own channels, or (with a bias) the channels of all heads");
  v("share_qv", c.share_qv, "values are the queries");
  v("running", c.running, "take causal masks, by running averages (not in the paper)");
}

// A softmax average over all tokens so far: its rows' weighted mean, and the logarithm of the sum
// of weights. An average over nothing weighs nothing beside any score.
constexpr double kNothing = -1e30;
struct Average {
  Tensor& mean;   // [B, H, 1, D]
  Tensor& logit;  // [B, H, 1]
};

// Row i becomes the average over the rows up to i and what came before. A piece of tokens reads the
// earlier ones as one row more, so nothing overflows and the future enters with weight zero.
Tensor running_average(const Tensor& scores, const Tensor& rows, const Tensor& keep,
                       const Average& past) {
  constexpr int64_t kPiece = 64;
  const auto real = keep.defined()
                        ? keep
                        : at::ones({rows.size(0), rows.size(2)}, rows.options().dtype(at::kBool));
  const auto s = scores.split(kPiece, 2), r = rows.split(kPiece, 2), m = real.split(kPiece, 1);
  std::vector<Tensor> averages;
  for (size_t piece = 0; piece < s.size(); ++piece) {
    const int64_t t = s[piece].size(2);
    const auto kept = at::constant_pad_nd(m[piece], {1, 0}, 1).unsqueeze(1);  // [B, 1, 1 + T]
    const auto visible = kept.unsqueeze(2).expand({-1, 1, t, t + 1}).tril(1);
    const auto logits = at::cat({past.logit, s[piece]}, 2);  // [B, H, 1 + T]
    const auto weights = masked_softmax(logits.unsqueeze(2), visible);
    averages.push_back(weights.matmul(at::cat({past.mean, r[piece]}, 2)));
    past.mean = averages.back().narrow(2, t - 1, 1);
    past.logit = at::where(kept, logits, kNothing).logsumexp(2, true);
  }
  return at::cat(averages, 2);  // [B, H, N, D]
}

class Fastformer : public MixerImpl {
 public:
  Fastformer(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const int64_t width = site.shape.width, inner = site.shape.inner();
    query_ = linear(site, "query", width, inner);
    key_ = linear(site, "key", width, inner);
    value_ = config.share_qv ? query_ : linear(site, "value", width, inner);
    transform_ = linear(site, "transform", inner, inner);
    if (inner != width) output_ = linear(site, "output", inner, width);
    query_score_ = score(site, "query_score");
    key_score_ = score(site, "key_score");
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    if (context.mask.causal) {
      State state;
      open(state, x.size(0), 0, context);
      return grow(x, state, context);
    }
    const auto& keep = context.mask.keep;
    const auto visible = keep.defined() ? keep.unsqueeze(1).unsqueeze(1) : keep;  // [B, 1, 1, N]
    const auto average = [&](const Tensor& scores, const Tensor& rows) {
      return masked_softmax(scores.unsqueeze(2), visible).matmul(rows);  // [B, H, 1, D]
    };
    return mixed(x, average, average);
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    const auto& like = query_->weight;
    const auto options = like.options().dtype(wide(like)).requires_grad(false);
    for (const std::string name : {"query", "key"}) {
      state.add(name + "_mean", {lanes, heads_, 1, like.size(0) / heads_}, options);
      state.add(name + "_logit", {lanes, heads_, 1}, options, kNothing);
    }
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto average = [&](const std::string& name) {
      return [&, name](const Tensor& scores, const Tensor& rows) {
        return running_average(scores, rows, context.mask.keep,
                               {state.lane.at(name + "_mean"), state.lane.at(name + "_logit")});
      };
    };
    return mixed(x, average("query"), average("key"));
  }

 private:
  // A product of three projections over all tokens: float32 at least, up to the last one.
  template <class Q, class K>
  Tensor mixed(const Tensor& x, const Q& average_query, const K& average_key) const {
    const auto projected = [&](const Linear& projection) {
      return split_heads(projection(x).to(wide(x)), heads_);  // [B, H, N, D]
    };
    const auto q = projected(*query_), k = projected(*key_);
    const auto v = config_.share_qv ? q : projected(*value_);
    const auto p = average_query(scores(q, query_score_), q) * k;
    const auto u = average_key(scores(p, key_score_), p) * v;
    const auto y =
        (*transform_)(merge_heads(u).to(x.scalar_type())) + merge_heads(q).to(x.scalar_type());
    return output_ ? (*output_)(y) : y;
  }

  // One number per head and token, from the head's own channels or from those of all heads.
  struct Score {
    Tensor own;                   // [H, D]
    std::shared_ptr<Linear> all;  // [H, H D]
  };
  Score score(const Site& site, const std::string& name) {
    const int64_t inner = site.shape.inner();
    if (config_.score_scope == Scope::full) return {{}, linear(site, name, inner, heads_)};
    return {parameter(name, initial_normal(site, name, {heads_, inner / heads_}, 0.02)), {}};
  }

  Tensor scores(const Tensor& rows, const Score& score) const {  // [B, H, N]
    const auto type = rows.scalar_type();
    if (score.own.defined())
      return rows.matmul(score.own.to(type).unsqueeze(-1)).squeeze(-1) * scale_;
    const auto &weight = score.all->weight, &bias = score.all->bias;
    return at::linear(merge_heads(rows), weight.to(type), bias.defined() ? bias.to(type) : bias)
               .transpose(1, 2) *
           scale_;
  }

  Config config_;
  int64_t heads_;
  double scale_;
  std::shared_ptr<Linear> query_, key_, value_, transform_, output_;
  Score query_score_, key_score_;
};

Promises promises(const Config& c) {
  return {.future = c.running ? Future::exact : Future::refused, .decode = c.running};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Fastformer>(site, c);
}

}  // namespace

Mechanism fastformer_mechanism() {
  return over_tokens<Config>(
      {.name = "fastformer",
       .family = "additive",
       .paper = "arXiv:2108.09084",
       .cost = "O(N H D)",
       .summary = "One global query and one global key per head; all products are elementwise.",
       .exact = "one token: W_r (q * k * v) + q; never softmax",
       .variants = {{"full", "{score_scope: full}"},
                    {"share_qv", "{share_qv: true}"},
                    {"running", "{running: true}"},
                    {"running_full", "{running: true, score_scope: full, share_qv: true}"}}},
      promises, make);
}

}  // namespace longbow
