// ETC, global-local attention (Ainslie et al., 2020, arXiv:2004.08483): beside the long sequence
// there are m global tokens, which all tokens read and which read all tokens; they go on to the
// next layer:
//   token i         reads tokens j with |i - j| <= radius (l2l) and all global tokens (l2g)
//   global token a  reads all global tokens (g2g) and all tokens (g2l)
// with one softmax over both, and scores that know how the two are related,
//   s = (q . k + q . A[label] + b[label]) / sqrt D,
// where the label is the distance, cut off at `clip`, between tokens of one kind, and between a
// token and a global token whether that one is the token's own (i div segment = a).
//   g' = LN(g + what they read),  and LN(g' + feed-forward(g')) where there is one.
// Exact when the radius covers the sequence and there are neither global tokens nor labels.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/feed_forward.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/head_products.h"
#include "longbow/nn/softmax/joint_softmax.h"
#include "longbow/ops/pack_softmax.h"

namespace longbow {
namespace {

enum class Share { none, side, all };
constexpr std::array<std::string_view, 3> names_of(Share) {
  return {"none", "side", "all"};
}

struct Config {
  int64_t radius = 84, globals = 16, clip = 12, segment = 0;
  Share share = Share::all;
  int64_t feed_forward = 0;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("radius", c.radius, "a token reads tokens at most this far away", range(0, 65536));
  v("globals", c.globals, "global tokens, learned, one sequence of them for all layers",
    range(0, 65536));
  v("clip", c.clip, "distances beyond this have the same label; 0 = no labels", range(0, 4096));
  v("segment", c.segment,
    "tokens in a segment, whose global token has a label of its own; 0 = all are others",
    at_least(0));
  v("share", c.share,
    "projections of keys and values: each of the four pieces has its own; those of l2l and l2g are "
    "one, and those of g2g and g2l; or all are one, and so are queries and outputs of both sides");
  v("feed_forward", c.feed_forward,
    "global tokens pass a feed-forward layer of this width before they go on; 0 = none",
    at_least(0));
  v("dropout", c.dropout, "rate on the weights and on what is added to global tokens",
    range(0, 0.99));
}

class Etc : public MixerImpl {
 public:
  Etc(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const auto& shape = site.shape;
    const auto piece = [&](const std::string& name) {
      return Piece{linear(site, name + "_key", shape.width, shape.inner()),
                   linear(site, name + "_value", shape.width, shape.inner())};
    };
    const auto side = [&](const std::string& name) {
      return Side{.query = linear(site, name + "_query", shape.width, shape.inner()),
                  .output = linear(site, name + "_output", shape.inner(), shape.width)};
    };
    long_ = side("long");
    l2l_ = piece("l2l");
    label(site, "long", long_);
    if (config.globals == 0) return;
    const bool all = config.share == Share::all, apart = config.share == Share::none;
    global_ = all ? Side{.query = long_.query, .output = long_.output} : side("global");
    g2g_ = all ? l2l_ : piece("g2g");
    l2g_ = apart ? piece("l2g") : l2l_;
    g2l_ = apart ? piece("g2l") : g2g_;
    label(site, "global", global_);
    first_ = sequence(site);
    norm_ = register_module("norm", std::make_shared<LayerNorm>(shape.width));
    if (config.feed_forward == 0) return;
    feed_forward_ = register_module(
        "feed_forward",
        std::make_shared<FeedForward>(site.at("feed_forward"),
                                      FeedForwardConfig{.width = config.feed_forward}));
    feed_norm_ = register_module("feed_norm", std::make_shared<LayerNorm>(shape.width));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto rows = project_together(x, {long_.query.get(), l2l_.key.get(), l2l_.value.get()});
    const auto by_head = [&](size_t i) { return split_heads(rows[i], heads_); };
    const Heads heads = {by_head(0), by_head(1), by_head(2), x, x};
    if (config_.globals == 0) return read_long(heads, {}, context);
    const auto g = carried(context).expand({x.size(0), -1, -1});  // [B, m, C]
    const auto y = read_long(heads, g, context);
    context.carry[kCarry] = moved_on(g, read_global(heads, g, context), context);
    return y;
  }

 private:
  struct Piece {
    std::shared_ptr<Linear> key, value;
  };
  struct Side {
    std::shared_ptr<Linear> query, output;
    Tensor table = {}, bias = {};  // [H, labels, D], [H, 1, labels]: of distances, other, own
  };

  Tensor split(const Linear& linear, const Tensor& x) const {
    return split_heads(linear(x), heads_);
  }
  Weighing weighing(const std::string& name) const {
    return {config_.dropout, is_training(), path_ + name};
  }

  int64_t labels() const { return 2 * config_.clip + 3; }
  void label(const Site& site, const std::string& name, Side& side) {
    if (config_.clip == 0) return;
    constexpr double kDeviation = 0.5;
    side.table = parameter(
        name + "_labels",
        initial_normal(site, name + "_labels", {heads_, labels(), site.shape.head()}, kDeviation),
        {.decay = false});
    side.bias = parameter(name + "_label_bias", at::zeros({heads_, 1, labels()}), {.decay = false});
  }

  // (q . A[label] + b[label]) / sqrt D of some labels; undefined where there are none. [B, H, N,
  // count]
  Tensor label_scores(const Side& side, const Tensor& q, int64_t first, int64_t count) const {
    if (!side.table.defined()) return {};
    return head_products(q, side.table.narrow(1, first, count).transpose(-2, -1) * scale_,
                         side.bias.narrow(2, first, count) * scale_);
  }
  Tensor near_scores(const Side& side, const Tensor& q) const {
    return label_scores(side, q, 0, 2 * config_.clip + 1);
  }
  // Adds those of the labels, which broadcast to the scores.
  static Tensor labelled(const Tensor& scores, const Tensor& by_label, const Tensor& label) {
    if (!by_label.defined()) return scores;
    return scores + by_label.gather(-1, label.expand(scores.sizes()));
  }
  Tensor distance_label(const Tensor& distance) const {
    return distance.clamp(-config_.clip, config_.clip) + config_.clip;
  }
  // Those of queries that are tokens beside global tokens, which are their own or others: [B, H, N,
  // m] or, for queries that are global, [B, H, m, N]; or 1 where all of a query are the same.
  Tensor global_labels(const Side& side, const Tensor& q, int64_t tokens, bool turned) const {
    const auto by_label =
        label_scores(side, q, labels() - 2, config_.segment == 0 || config_.clip == 0 ? 1 : 2);
    if (!by_label.defined() || config_.segment == 0) return by_label;
    const auto i = index(0, tokens, by_label).unsqueeze(1), a = index(0, config_.globals, by_label);
    const auto own = (i.floor_divide(config_.segment) == a).to(at::kLong);
    const auto label = turned ? own.t() : own;
    return by_label.gather(-1, label.expand({by_label.size(0), heads_, -1, -1}));
  }
  static Tensor index(int64_t first, int64_t end, const Tensor& like) {
    return at::arange(first, end, like.options().dtype(at::kLong));
  }

  Tensor read_long(const Heads& heads, const Tensor& g, Context& context) const {
    const auto y = context.maps ? read_tiles(heads, g, context) : read_near(heads, g, context);
    return (*long_.output)(merge_heads(y));
  }

  // Tokens within the radius, and global ones, joined. A label that all of the latter share adds to
  // the logarithm of their sum.
  Tensor read_near(const Heads& heads, const Tensor& g, const Context& context) const {
    constexpr int64_t kBlock = 64, kHalf = kBlock / 2;
    const int64_t n = heads.q.size(2), r = config_.radius, clip = config_.clip;
    const auto pairs = blocks_around(n, kBlock, (r + kHalf - 1) / kHalf * kHalf, heads.q.device());
    const auto by_label = near_scores(long_, heads.q);
    const auto near = read_blocks(
        heads.q, heads.k, heads.v, pairs,
        {.back = r, .ahead = r, .keep = kept_keys(context.mask.keep)}, weighing(""), context,
        by_label, by_label.defined() ? Distances{-clip, clip} : Distances{}, scale_);
    if (!g.defined()) return near.mean;
    const auto added = global_labels(long_, heads.q, n, /*turned=*/false);
    const bool each = config_.segment > 0 && added.defined();
    auto far = read_blocks(heads.q, split(*l2g_.key, g), split(*l2g_.value, g),
                           one_block(n, config_.globals, g.device()), {}, weighing(".global"),
                           context, each ? added.unsqueeze(2) : Tensor(), {}, scale_);
    if (added.defined() && !each) far.log_sum = far.log_sum + added;
    return (near + far).mean;
  }

  // The same with all weights, for those who look at them.
  Tensor read_tiles(const Heads& heads, const Tensor& g, Context& context) const {
    const auto& x = heads.x;
    const auto q = heads.q * scale_, by_label = near_scores(long_, heads.q);
    const auto band = Band::around(x.size(1), config_.radius, config_.radius);
    const auto near = band.queries(q).matmul(band.keys(heads.k).transpose(-2, -1));
    const auto distance =
        index(-band.back, band.tile + band.ahead, x) - index(0, band.tile, x).unsqueeze(1);
    std::vector<KeyFamily> families = {
        {labelled(near, by_label.defined() ? band.queries(by_label) : by_label,
                  distance_label(distance)),
         band.visible(within(config_.radius, config_.radius), context.mask.keep, x.device()),
         band.keys(heads.v)}};
    if (g.defined()) {
      auto scores = q.matmul(split(*l2g_.key, g).transpose(-2, -1));
      if (by_label.defined()) scores = scores + global_labels(long_, heads.q, x.size(1), false);
      families.push_back({band.queries(scores), {}, split(*l2g_.value, g)});
    }
    return band.together(joint_softmax(families, weighing(""), context));
  }

  // Of tokens the keys and values of all, where the projections are the same.
  Tensor read_global(const Heads& heads, const Tensor& g, Context& context) const {
    const auto& x = heads.x;
    const bool shared = g2l_.key == l2l_.key;
    const auto queries = split(*global_.query, g), q = queries * scale_;
    const auto k = shared ? heads.k : split(*g2l_.key, x),
               v = shared ? heads.v : split(*g2l_.value, x), own = split(*g2g_.value, g);
    const auto a = index(0, config_.globals, x);
    const auto near = labelled(q.matmul(split(*g2g_.key, g).transpose(-2, -1)),
                               near_scores(global_, queries), distance_label(a - a.unsqueeze(1)));
    const auto added = global_labels(global_, queries, x.size(1), /*turned=*/true);
    if (packs(q, k, v, added, context)) {
      auto far = pack_softmax_part(q, k, v, context.mask.keep);
      if (added.defined()) far.log_sum = far.log_sum + added;
      const auto all = at::ones({1}, near.options().dtype(at::kBool).requires_grad(false));
      const auto both = PartialSoftmax::over(near, all, own) + PartialSoftmax{far.out, far.log_sum};
      return (*global_.output)(merge_heads(both.mean.to(v.scalar_type())));
    }
    auto far = q.matmul(k.transpose(-2, -1));
    if (added.defined()) far = far + added;
    const auto y = joint_softmax({{near, {}, own}, {far, visible_keys(context.mask.keep), v}},
                                 weighing(".globals"), context);
    return (*global_.output)(merge_heads(y));
  }
  // Whether kernels read all tokens, whose scores then have nothing but what all of them share.
  bool packs(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added,
             const Context& context) const {
    const bool drops = is_training() && config_.dropout > 0;
    return has_pack_kernel(q, k, v) && !drops && !context.maps &&
           (!added.defined() || added.size(-1) == 1);
  }

  Tensor moved_on(const Tensor& g, const Tensor& read, Context& context) const {
    const auto added = [&](const Tensor& old, const Tensor& y, const char* site) {
      return old + longbow::dropout(y, config_.dropout, is_training(), context, path_ + site);
    };
    const auto next = (*norm_)(added(g, read, ".read.dropout"));
    if (!feed_forward_) return next;
    return (*feed_norm_)(added(next, (*feed_forward_)(next, context), ".fed.dropout"));
  }

  // The stack's first global tokens, or the layer's own when there is no stack.
  Tensor sequence(const Site& site) {
    constexpr double kDeviation = 0.02;
    const std::vector<int64_t> shape = {config_.globals, site.shape.width};
    if (site.shared) return shared_normal(site, "etc_globals", shape, kDeviation);
    return parameter("globals", initial_normal(site, "globals", shape, kDeviation));
  }
  Tensor carried(const Context& context) const {
    const auto found = context.carry.find(kCarry);
    return found == context.carry.end() ? first_.unsqueeze(0) : found->second;
  }
  static constexpr const char* kCarry = "etc";

  Config config_;
  int64_t heads_;
  std::string path_;
  double scale_;
  Side long_, global_;
  Piece l2l_, l2g_, g2g_, g2l_;
  Tensor first_;  // [m, C]
  std::shared_ptr<LayerNorm> norm_, feed_norm_;
  std::shared_ptr<FeedForward> feed_forward_;
};

void check(const Config& c, const Site&) {
  require_option(c.globals > 0 || c.feed_forward == 0, "feed_forward",
                 "is for global tokens, but globals is 0", "leave one of them out");
  require_option(c.segment == 0 || (c.globals > 0 && c.clip > 0), "segment",
                 "needs global tokens and labels", "set globals and clip above 0");
}

// Those layers that have global tokens hand them on.
OptionValues common(const Config& c, const Site&) {
  if (c.globals == 0) return {};
  return {{"globals", std::to_string(c.globals)}};
}

Promises promises(const Config&) {
  return {.positional = true};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Etc>(site, c);
}

}  // namespace

Mechanism etc_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "etc",
       .family = "window",
       .paper = "arXiv:2004.08483",
       .cost = "O(N (W + m) D)",
       .summary = "Tokens attend to their neighbours and to a few global tokens, which attend to "
                  "all and go on to the next layer.",
       .exact = "radius >= N, globals 0, clip 0: softmax",
       .variants = {{"small", "{radius: 3, globals: 4, clip: 2, segment: 5, share: none}"},
                    {"side", "{radius: 5, globals: 3, clip: 0, share: side, feed_forward: 10}"},
                    {"local", "{radius: 6, globals: 0, clip: 3}"}}},
      promises, make, check);
  return with_common(row, common);
}

}  // namespace longbow
