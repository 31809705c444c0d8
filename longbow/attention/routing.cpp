// Routing attention (Roy et al., 2020, arXiv:2003.05997): tokens attend within clusters that are
// learned by k-means. For centroids mu_c and unit rows u_i = x_i / |x_i|,
//   members of c = the W tokens of largest u_i . mu_c,   so that all clusters are of one size;
//   o_i = mean over the clusters c of token i of  softmax_{j in c}(q_i . k_j / sqrt D) v_j.
// Tokens in no cluster read zero. With shared queries and keys k_j = q_j / |q_j|, and a token reads
// itself only where it sees no other. Centroids are no parameters: after a training step each moves
// a little towards the mean of the rows that are nearest to it.
// One cluster of all tokens is softmax (with unit keys where shared).
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/blocks.h"

namespace longbow {
namespace {

struct Config {
  int64_t clusters = 16, window = 64, memory = 0;
  bool shared = true;
  double decay = 0.999, commitment = 1e-4, epsilon = 0;
  int64_t local_heads = 0, local_window = 64;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("clusters", c.clusters, "clusters of tokens", range(1, 65536));
  v("window", c.window, "members of a cluster", range(1, 65536));
  v("memory", c.memory, "learned keys and values that all members of a cluster read too",
    range(0, 1024));
  v("shared", c.shared, "keys are the queries, of length 1; a token reads itself only when alone");
  v("decay", c.decay, "share of a centroid that remains in a training step", range(0, 1));
  v("commitment", c.commitment,
    "weight in the training loss of the squared distance between rows and their centroids",
    at_least(0));
  v("epsilon", c.epsilon,
    "added to the number of clusters of a token in its mean; 0 = it is at least 1", at_least(0));
  v("local_heads", c.local_heads, "heads that read a window around each token instead",
    at_least(0));
  v("local_window", c.local_window, "tokens that a local head reads before and after each",
    range(1, 65536));
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

Tensor unit(const Tensor& x) {
  return x / x.norm(2, -1, true).clamp_min(1e-12);
}

// Rows [B, H, N, E] of an index [B, H, K, W] -> [B, H, K, W, E].
Tensor gathered(const Tensor& x, const Tensor& index) {
  return x.gather(2, index.flatten(2).unsqueeze(-1).expand({-1, -1, -1, x.size(3)}))
      .unflatten(2, {index.size(2), index.size(3)});
}

class Routing : public MixerImpl {
 public:
  Routing(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        routed_(heads_ - config.local_heads),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const int64_t width = site.shape.width, inner = site.shape.inner(), d = site.shape.head();
    query_ = linear(site, "query", width, inner);
    if (!config.shared) key_ = linear(site, "key", width, inner);
    value_ = linear(site, "value", width, inner);
    output_ = linear(site, "output", inner, width);
    const std::vector<int64_t> shape = {routed_, config.clusters, d};
    centroids_ = register_buffer("centroids", unit(initial_normal(site, "centroids", shape, 1)));
    nearest_ = register_buffer("nearest", at::zeros(shape));
    if (config.memory == 0) return;
    const std::vector<int64_t> slots = {routed_, config.clusters, config.memory, d};
    memory_key_ = parameter("memory_key", initial_normal(site, "memory_key", slots, 1));
    memory_value_ = parameter("memory_value", initial_normal(site, "memory_value", slots, 1));
  }

  // In place, so that a captured graph sees it. A centroid without rows stays.
  void after_step(int64_t) override {
    if (!is_training()) return;
    const at::NoGradGuard constant;
    const auto some = (nearest_ != 0).any(-1, true);
    const auto moved = unit(config_.decay * centroids_ + (1 - config_.decay) * unit(nearest_));
    centroids_.copy_(at::where(some, moved, centroids_));
    nearest_.zero_();
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto type = wide(x);
    const auto split = [&](const Linear& layer) { return split_heads(layer(x), heads_).to(type); };
    const auto q = split(*query_), k = config_.shared ? unit(q) : split(*key_), v = split(*value_);
    const auto local = [&](const Tensor& t) { return t.narrow(1, 0, config_.local_heads); };
    const auto routed = [&](const Tensor& t) { return t.narrow(1, config_.local_heads, routed_); };
    std::vector<Tensor> heads;
    if (config_.local_heads > 0) heads.push_back(nearby(local(q), local(k), local(v), context));
    heads.push_back(clustered(routed(q), routed(k), routed(v), context));
    return (*output_)(merge_heads(at::cat(heads, 1)).to(x.scalar_type()));
  }

 private:
  Tensor nearby(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) const {
    const int64_t ahead = context.mask.causal ? 0 : config_.local_window;
    return read_window({.q = q * scale_, .k = k, .v = v}, config_.local_window, ahead,
                       weighing(".local"), context)
        .mean;
  }

  Tensor clustered(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) {
    const auto rows_q = unit(q), rows_k = config_.shared ? rows_q : unit(k);
    if (is_training()) learn(rows_q, path_ + ".nearest_q", context);
    if (is_training() && !config_.shared) learn(rows_k, path_ + ".nearest_k", context);
    const auto of_q = members(rows_q, path_ + ".members_q", context);  // [B, H, K, W]
    const auto of_k = config_.shared ? of_q : members(rows_k, path_ + ".members_k", context);
    auto keys = gathered(k, of_k), values = gathered(v, of_k), seen = visible(of_q, of_k, context);
    if (config_.memory > 0) {  // before the others
      keys = at::cat({slots(memory_key_, keys), keys}, 3);
      values = at::cat({slots(memory_value_, values), values}, 3);
      seen = at::constant_pad_nd(seen, {config_.memory, 0}, 1);
    }
    const auto y =
        softmax_read(gathered(q, of_q) * scale_, keys, values, seen, weighing(""), context);
    return averaged(y, of_q, q.size(2));
  }

  // Members in the order of time. Padded tokens come after all others.
  Tensor members(const Tensor& rows, const std::string& site, const Context& context) const {
    return context.pick(site, [&] {
      const at::NoGradGuard constant;
      auto affinity = affinities(rows).transpose(-2, -1);  // [B, H, K, N]
      if (context.mask.keep.defined())
        affinity = affinity.masked_fill(visible_keys(context.mask.keep).logical_not(), -2);
      const int64_t count = std::min(config_.window, rows.size(2));
      return std::get<0>(std::get<1>(affinity.topk(count, -1, true, /*sorted=*/false)).sort(-1));
    });
  }
  Tensor affinities(const Tensor& rows) const {  // [B, H, N, K], from -1 to 1
    return rows.matmul(centroids_.to(rows.scalar_type()).transpose(-2, -1));
  }

  // [B, H, K, W, W]: real keys, no later ones when causal, and not the token itself where shared,
  // unless it is alone.
  Tensor visible(const Tensor& of_q, const Tensor& of_k, const Context& context) const {
    const auto i = of_q.unsqueeze(-1), j = of_k.unsqueeze(-2);
    auto seen = at::ones_like(j, j.options().dtype(at::kBool));
    if (context.mask.keep.defined()) {
      const auto keep = context.mask.keep.unsqueeze(1).expand({-1, of_k.size(1), -1});
      seen = keep.gather(2, of_k.flatten(2)).view_as(j);
    }
    if (context.mask.causal) seen = seen.logical_and(j <= i);
    if (!config_.shared) return seen.expand({-1, -1, -1, of_q.size(3), -1});
    const auto others = seen.logical_and(i != j);
    if (config_.memory > 0) return others;
    return at::where(others.any(-1, true), others, seen);
  }

  static Tensor slots(const Tensor& memory, const Tensor& like) {  // [H, K, m, D] for all rows
    return memory.to(like.scalar_type()).unsqueeze(0).expand({like.size(0), -1, -1, -1, -1});
  }

  // Every token's mean over its clusters: [B, H, K, W, D] -> [B, H, N, D].
  Tensor averaged(const Tensor& y, const Tensor& of_q, int64_t tokens) const {
    const auto index = of_q.flatten(2).unsqueeze(-1);  // [B, H, K W, 1]
    const auto sum = at::zeros({y.size(0), y.size(1), tokens, y.size(4)}, y.options())
                         .scatter_add(2, index.expand({-1, -1, -1, y.size(4)}), y.flatten(2, 3));
    const auto count = at::zeros({y.size(0), y.size(1), tokens, 1}, y.options())
                           .scatter_add(2, index, at::ones_like(index, y.options()));
    return sum / (config_.epsilon > 0 ? count + config_.epsilon : count.clamp_min(1));
  }

  // What a training step learns of unit rows: the sums near each centroid, and the loss that draws
  // rows towards them. A second run for the backward pass adds no sums.
  void learn(const Tensor& rows, const std::string& site, Context& context) {
    const auto& keep = context.mask.keep;
    const auto nearest =
        context.pick(site, [&] { return affinities(rows.detach()).argmax(-1); });  // [B, H, N]
    auto real = at::ones_like(nearest, rows.options());
    if (keep.defined()) real = real * keep.unsqueeze(1).to(real.scalar_type());
    if (!context.recomputing) {
      const at::NoGradGuard constant;
      const auto each = at::arange(config_.clusters, nearest.options());
      const auto member =
          (nearest.unsqueeze(-1) == each).to(rows.scalar_type()) * real.unsqueeze(-1);
      nearest_.add_(
          at::einsum("bhnk,bhnd->hkd", {member, rows.detach()}).to(nearest_.scalar_type()));
    }
    if (config_.commitment == 0) return;
    const auto centroid = centroids_.to(rows.scalar_type())
                              .unsqueeze(0)
                              .expand({rows.size(0), -1, -1, -1})
                              .gather(2, nearest.unsqueeze(-1).expand_as(rows));
    const auto distance =
        ((rows - centroid).square().sum(-1) * real).sum() / real.sum().clamp_min(1);
    context.add_loss(config_.commitment * distance);
  }

  Weighing weighing(const std::string& name) const {
    return {config_.dropout, is_training(), path_ + name};
  }

  Config config_;
  int64_t heads_, routed_;
  std::string path_;
  double scale_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  Tensor centroids_, nearest_;        // [H, K, D]; the second: sums of rows since the last step
  Tensor memory_key_, memory_value_;  // [H, K, m, D] or undefined
};

void check(const Config& c, const Site& site) {
  require_option(c.local_heads < site.shape.heads, "local_heads",
                 c10::str("is ", c.local_heads, ", but there are ", site.shape.heads, " heads"),
                 "leave at least one to route");
}

// Members are chosen among all tokens, later ones too.
Promises promises(const Config& c) {
  return {.future = Future::frozen, .positional = c.local_heads > 0};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Routing>(site, c);
}

}  // namespace

Mechanism routing_mechanism() {
  return over_tokens<Config>(
      {.name = "routing",
       .family = "clusters",
       .paper = "arXiv:2003.05997",
       .cost = "O(N K D + K W^2 D)",
       .summary = "Tokens attend within clusters of one size, whose centroids are learned by "
                  "k-means.",
       .exact = "one cluster of all tokens, not shared: softmax",
       .variants = {{"small", "{clusters: 3, window: 9}"},
                    {"unshared", "{clusters: 3, window: 9, shared: false, memory: 2}"},
                    {"local_heads", "{clusters: 3, window: 9, local_heads: 1, local_window: 5}"}}},
      promises, make, check);
}

}  // namespace longbow
