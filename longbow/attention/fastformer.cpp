// Fastformer (Wu et al., 2021, arXiv:2108.09084): additive attention. Tokens are summed up into one
// global query and one global key per head, and every product is elementwise:
//   g = sum_i alpha_i q_i,   alpha = softmax_i(w_q . q_i / sqrt D),
//   c = sum_i beta_i p_i,    beta = softmax_i(w_k . p_i / sqrt D),   p_i = g * k_i,
//   y_i = W_r (c * v_i) + q_i.
// `running` also takes causal masks, which the paper does not: g_i and c_i are then averages over
// the tokens up to i, and p_i = g_i * k_i. That is causal and linear, but it is not the equation
// above on each prefix, where p_i would have to be formed anew from every later g.
#include <ATen/ATen.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/channel_softmax.h"
#include "longbow/ops/affine.h"
#include "longbow/ops/channel_mean.h"

namespace longbow {
namespace {

enum class Scope { head, full };
constexpr std::array<std::string_view, 2> names_of(Scope) {
  return {"head", "full"};
}

enum class GlobalKey { products, keys };
constexpr std::array<std::string_view, 2> names_of(GlobalKey) {
  return {"products", "keys"};
}

struct Config {
  Scope score_scope = Scope::head;
  bool share_qv = false;
  GlobalKey global_key = GlobalKey::products;
  bool head_transform = false;
  bool running = false;
};
template <class V>
void fields(V& v, Config& c) {
  v("score_scope", c.score_scope,
    "what a head's score reads: its own channels, or (with a bias) the channels of all heads");
  v("share_qv", c.share_qv, "values are the queries");
  v("global_key", c.global_key, "what is averaged into c: p, or the keys alone");
  v("head_transform", c.head_transform,
    "W_r is one matrix for the channels of a head, the same for all heads, and a projection of all "
    "channels follows");
  v("running", c.running, "take causal masks, by running averages (not in the paper)");
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
    const int64_t transformed = config.head_transform ? site.shape.head() : inner;
    transform_ = linear(site, "transform", transformed, transformed);
    if (config.head_transform || inner != width) output_ = linear(site, "output", inner, width);
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
    return summed_up(x, context.mask.keep);
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    const auto& like = query_->weight;
    const auto rows = at::empty({lanes, heads_, 0, like.size(0) / heads_},
                                like.options().dtype(wide(like)).requires_grad(false));
    for (const std::string name : {"query_", "key_"})
      open_channel_sums(state, rows.narrow(3, 0, 1), rows, name);
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto average = [&](const Tensor& scores, const Tensor& rows, const std::string& name) {
      return grow_channel_sums(scores, rows, state, name).mean();  // [B, H, N, D]
    };
    return mixed(x, context.mask.keep, average);
  }

 private:
  // One number per head and token, from the head's own channels or from those of all heads.
  struct Score {
    Tensor own;                   // [H, D]
    std::shared_ptr<Linear> all;  // [H, H D]
  };

  // With one g for all tokens nothing but projections has their size: p_i is never formed, since
  // w_k . p_i = (w_k * g) . k_i and c = g * sum_i beta_i k_i; scores are products of x with W^T w.
  Tensor summed_up(const Tensor& x, const Tensor& keep) const {
    std::vector<const Linear*> layers = {query_.get(), key_.get()};
    if (!config_.share_qv) layers.push_back(value_.get());
    const auto rows = project_together(x, layers);
    const auto &q = rows[0], &k = rows[1], &v = config_.share_qv ? q : rows[2];
    const auto g = channel_mean(scores_of(x, *query_, matrix(query_score_), query_score_), q, keep);
    const auto sums =
        channel_mean(scores_of(x, *key_, matrix(key_score_) * g.unsqueeze(1), key_score_), k, keep);
    const auto c = config_.global_key == GlobalKey::products ? g * sums : sums;
    return finished(v * c.unsqueeze(1).to(x.scalar_type()), q);
  }

  // What a score weighs the channels of all heads by, [H, H D], scaled, in float32 at least.
  Tensor matrix(const Score& score) const {
    if (!score.own.defined()) return score.all->weight.to(wide(score.all->weight)) * scale_;
    const auto own = score.own.to(wide(score.own)) * scale_;
    return (at::eye(heads_, own.options()).unsqueeze(-1) * own.unsqueeze(1)).flatten(1);
  }
  // by [.., H, H D] times what a projection makes of x: [B, N, H].
  Tensor scores_of(const Tensor& x, const Linear& projection, const Tensor& by,
                   const Score& score) const {
    const auto type = x.scalar_type();
    const auto weight = by.matmul(projection.weight.to(by.scalar_type())).to(type);
    if (!projection.bias.defined()) return x.matmul(weight.transpose(-2, -1));
    auto bias = by.matmul(projection.bias.to(by.scalar_type()));
    if (score.all) bias = bias + score.all->bias.to(by.scalar_type()) * scale_;
    if (weight.dim() == 2) return affine(x, weight, bias.to(type));
    return at::baddbmm(bias.to(type).unsqueeze(1), x, weight.transpose(1, 2));
  }

  // u [B, N, H D] is c * v.
  Tensor finished(const Tensor& u, const Tensor& q) const {
    const auto r = config_.head_transform ? merge_heads((*transform_)(split_heads(u, heads_)))
                                          : (*transform_)(u);
    return output_ ? (*output_)(r + q) : r + q;
  }

  // A product of three projections over all tokens: float32 at least, up to the last one.
  template <class Average>
  Tensor mixed(const Tensor& x, const Tensor& keep, const Average& average) const {
    const auto projected = [&](const Linear& projection) {
      return split_heads(projection(x).to(wide(x)), heads_);  // [B, H, N, D]
    };
    const auto q = projected(*query_), k = projected(*key_);
    const auto v = config_.share_qv ? q : projected(*value_);
    const auto p = average(scores(q, query_score_, keep), q, "query_") * k;
    const auto& averaged = config_.global_key == GlobalKey::products ? p : k;
    const auto u = average(scores(p, key_score_, keep), averaged, "key_") * v;
    return finished(merge_heads(u).to(x.scalar_type()), merge_heads(q).to(x.scalar_type()));
  }

  Score score(const Site& site, const std::string& name) {
    const int64_t inner = site.shape.inner();
    if (config_.score_scope == Scope::full) return {{}, linear(site, name, inner, heads_)};
    return {parameter(name, initial_normal(site, name, {heads_, inner / heads_}, 0.02)), {}};
  }

  // [B, H, N, 1]; a padded token has no weight.
  Tensor scores(const Tensor& rows, const Score& score, const Tensor& keep) const {
    const auto type = rows.scalar_type();
    Tensor s;
    if (score.own.defined()) {
      s = rows.matmul(score.own.to(type).unsqueeze(-1));
    } else {
      const auto &weight = score.all->weight, &bias = score.all->bias;
      s = split_heads(
          at::linear(merge_heads(rows), weight.to(type), bias.defined() ? bias.to(type) : bias),
          heads_);
    }
    s = s * scale_;
    return keep.defined() ? s.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1),
                                          -std::numeric_limits<double>::infinity())
                          : s;
  }

  Config config_;
  int64_t heads_;
  double scale_;
  std::shared_ptr<Linear> query_, key_, value_, transform_, output_;
  Score query_score_, key_score_;
};

Promises promises(const Config& c) {
  return {.future = c.running ? Future::exact : Future::refused,
          .decode = c.running,
          .causal_launches = Launches::logarithmic};
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
                    {"keys", "{global_key: keys, head_transform: true}"},
                    {"running", "{running: true}"},
                    {"running_full", "{running: true, score_scope: full, share_qv: true}"},
                    {"running_keys", "{running: true, global_key: keys}"}}},
      promises, make);
}

}  // namespace longbow
