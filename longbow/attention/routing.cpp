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
#include <vector>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/ops/centroids.h"
#include "longbow/ops/gated_norm.h"
#include "longbow/ops/members.h"

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

constexpr double kLeastNorm = 1e-12;

Tensor unit(const Tensor& x) {
  return x / x.norm(2, -1, true).clamp_min(kLeastNorm);
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
    centroids_ = exact_buffer("centroids", unit(initial_normal(site, "centroids", shape, 1)));
    nearest_ = exact_buffer("nearest", at::zeros(shape));
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
    std::vector<const Linear*> layers = {query_.get()};
    if (key_) layers.push_back(key_.get());
    layers.push_back(value_.get());
    const auto rows = project_together(x, layers);
    const auto q = split_heads(rows[0], heads_), v = split_heads(rows.back(), heads_),
               k = config_.shared ? q : split_heads(rows[1], heads_);
    if (config_.local_heads == 0) return (*output_)(merge_heads(clustered(q, k, v, context)));
    const auto local = [&](const Tensor& t) { return t.narrow(1, 0, config_.local_heads); };
    const auto routed = [&](const Tensor& t) { return t.narrow(1, config_.local_heads, routed_); };
    return (*output_)(merge_heads(at::cat({nearby(local(q), local(k), local(v), context),
                                           clustered(routed(q), routed(k), routed(v), context)},
                                          1)));
  }

 private:
  // Keys are the queries themselves where they are shared; of length 1 where they are read.
  Tensor keys_of(const Tensor& k) const {
    if (!config_.shared) return k;
    // The same by a kernel for norms by the mean square.
    const auto rows = k.transpose(1, 2).flatten(2);
    const auto weight = at::full({k.size(3)}, 1 / std::sqrt(static_cast<double>(k.size(3))),
                                 k.options().dtype(at::kFloat));
    if (has_gated_norm_kernel(rows, {}, {}, weight))
      return split_heads(gated_norm(rows, {}, {}, weight, kLeastNorm * kLeastNorm), k.size(1));
    return unit(k.to(wide(k))).to(k.scalar_type());
  }

  Tensor nearby(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) const {
    const int64_t ahead = context.mask.causal ? 0 : config_.local_window;
    return read_window({.q = q, .k = keys_of(k), .v = v}, config_.local_window, ahead,
                       weighing(".local"), context, scale_)
        .mean;
  }

  Tensor clustered(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) {
    const auto near_q = affinities(q), near_k = config_.shared ? near_q : affinities(k);
    if (is_training()) learn(near_q, path_ + ".nearest_q", context);
    if (is_training() && !config_.shared) learn(near_k, path_ + ".nearest_k", context);
    const auto of_q = members(near_q, path_ + ".members_q", context);  // [B, H, K, W]
    const auto of_k = config_.shared ? of_q : members(near_k, path_ + ".members_k", context);
    const auto query_members = Members::of(of_q, q.size(2)),
               key_members = config_.shared ? query_members : Members::of(of_k, k.size(2));
    const auto queries = take_members(q, query_members),
               keys = keys_of(config_.shared ? queries : take_members(k, key_members)),
               values = take_members(v, key_members);  // [B, H, K W, D]
    const bool tiles = config_.memory > 0 || context.maps;
    const auto y = tiles ? read_tiles(queries, keys, values, of_q, of_k, context)
                         : read_members(queries, keys, values, of_q, of_k, context);
    return sum_members(y, query_members, config_.epsilon).to(v.scalar_type());
  }

  // Clusters are blocks. A token that sees no other reads itself where it is its own key.
  Tensor read_members(const Tensor& queries, const Tensor& keys, const Tensor& values,
                      const Tensor& of_q, const Tensor& of_k, Context& context) const {
    const int64_t clusters = of_q.size(2), count = of_q.size(3);
    const auto flat = [](const Tensor& x) { return x.flatten(2, 3); };
    const BlockPairs pairs = {count, count,
                              at::arange(clusters, of_q.options()).view({1, 1, clusters, 1})};
    Visibility seen = {.ahead = context.mask.causal ? 0 : Visibility::kAll,
                       .apart = config_.shared ? 1 : 0,
                       .query_positions = flat(of_q),
                       .key_positions = flat(of_k)};
    if (context.mask.keep.defined()) seen.keep = flat(kept(of_k, context));
    const auto read =
        read_blocks(queries, keys, values, pairs, seen, weighing(""), context, {}, {}, scale_);
    return config_.shared ? at::where(read.saw(), read.mean, values) : read.mean;
  }

  // The same with all weights, for those who look at them or read learned keys before the others.
  Tensor read_tiles(const Tensor& queries, const Tensor& all_keys, const Tensor& all_values,
                    const Tensor& of_q, const Tensor& of_k, Context& context) const {
    const auto by_cluster = [&](const Tensor& x) { return x.unflatten(2, {of_q.size(2), -1}); };
    auto keys = by_cluster(all_keys), values = by_cluster(all_values);
    auto seen = visible(of_q, of_k, context);
    if (config_.memory > 0) {
      keys = at::cat({slots(memory_key_, keys), keys}, 3);
      values = at::cat({slots(memory_value_, values), values}, 3);
      seen = at::constant_pad_nd(seen, {config_.memory, 0}, 1);
    }
    return softmax_read(by_cluster(queries) * scale_, keys, values, seen, weighing(""), context)
        .flatten(2, 3);
  }

  // Rows beside the centroids, with gradients.
  struct Affinities {
    Tensor rows;             // [B, H, N, D], x as given
    CentroidCosines nearby;  // u . mu from -1 to 1
  };
  Affinities affinities(const Tensor& x) const {
    return {x, centroid_cosines(x, centroids_, kLeastNorm)};
  }

  // Members in the order of time. Padded tokens come after all others.
  Tensor members(const Affinities& near, const std::string& site, const Context& context) const {
    return context.pick(site, [&] {
      const at::NoGradGuard constant;
      auto affinity = near.nearby.cosines.transpose(-2, -1);  // [B, H, K, N]
      if (context.mask.keep.defined())
        affinity = affinity.masked_fill(visible_keys(context.mask.keep).logical_not(), -2);
      return first_of_largest(affinity, std::min(config_.window, affinity.size(3)));
    });
  }
  // The places of the `count` largest of each line in their order, of equal ones those that come
  // first: topk takes any of them, and others when a line is longer. NaN is larger than all.
  static Tensor first_of_largest(const Tensor& x, int64_t count) {
    const int64_t last = x.size(-1) - 1;
    const auto least = std::get<0>(x.topk(count, -1)).narrow(-1, count - 1, 1);
    const auto above = (x <= least).logical_not(), equal = x == least;
    const auto room = count - above.sum(-1, true, at::kInt);
    const auto taken = above.logical_or(equal.logical_and(equal.cumsum(-1, at::kInt) <= room));
    const auto place = at::where(taken, at::arange(last + 1, room.options()), last);
    const auto found = std::get<0>(place.topk(count, -1, /*largest=*/false, /*sorted=*/true));
    return found.to(at::kLong);
  }
  // Which members are real, [B, H, K, W].
  static Tensor kept(const Tensor& of_k, const Context& context) {
    const auto keep = context.mask.keep.unsqueeze(1).expand({-1, of_k.size(1), -1});
    return keep.gather(2, of_k.flatten(2)).view_as(of_k);
  }

  // [B, H, K, W, W]: real keys, no later ones when causal, and not the token itself where shared,
  // unless it is alone.
  Tensor visible(const Tensor& of_q, const Tensor& of_k, const Context& context) const {
    const auto i = of_q.unsqueeze(-1), j = of_k.unsqueeze(-2);
    auto seen = at::ones_like(j, j.options().dtype(at::kBool));
    if (context.mask.keep.defined()) seen = kept(of_k, context).unsqueeze(-2);
    if (context.mask.causal) seen = seen.logical_and(j <= i);
    if (!config_.shared) return seen.expand({-1, -1, -1, of_q.size(3), -1});
    const auto others = seen.logical_and(i != j);
    if (config_.memory > 0) return others;
    return at::where(others.any(-1, true), others, seen);
  }

  static Tensor slots(const Tensor& memory, const Tensor& like) {  // [H, K, m, D] for all rows
    return memory.to(like.scalar_type()).unsqueeze(0).expand({like.size(0), -1, -1, -1, -1});
  }

  // What a training step learns of unit rows: the sums near each centroid, and the loss that draws
  // rows towards them, |u - mu|^2 = |u|^2 + |mu|^2 - 2 u . mu. A second run for the backward pass
  // adds no sums.
  void learn(const Affinities& near, const std::string& site, Context& context) {
    const auto& keep = context.mask.keep;
    const auto &cosines = near.nearby.cosines, &inverse = near.nearby.inverse;
    const auto nearest = context.pick(site, [&] { return near.nearby.nearest; });  // [B, H, N]
    const auto real = keep.defined() ? keep.unsqueeze(1) : Tensor();
    if (!context.recomputing) {
      const at::NoGradGuard constant;
      const auto counted = keep.defined() ? nearest.masked_fill(real.logical_not(), -1) : nearest;
      nearest_.add_(centroid_sums(near.rows.detach(), inverse, counted, config_.clusters)
                        .to(nearest_.scalar_type()));
    }
    if (config_.commitment == 0) return;
    const auto lengths = centroids_.to(cosines.scalar_type())
                             .square()
                             .sum(-1)
                             .unsqueeze(0)
                             .expand({nearest.size(0), -1, -1});  // [B, H, K]
    const auto cosine = cosines.gather(3, nearest.unsqueeze(-1)).squeeze(-1);
    const auto square = (inverse * kLeastNorm < 1).to(cosines.scalar_type());  // |u|^2
    const auto distance = square + lengths.gather(2, nearest) - 2 * cosine;
    if (!keep.defined()) {
      context.add_loss(config_.commitment * distance.mean());
      return;
    }
    const auto counts = real.expand_as(nearest).to(cosines.scalar_type());
    context.add_loss(config_.commitment * (distance * counts).sum() / counts.sum().clamp_min(1));
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
