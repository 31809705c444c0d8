// Sliding windows and global tokens (Longformer: The Long-Document Transformer, 2020,
// arXiv:2004.05150). A query i reads
//   { i + d s : -W <= s <= W } and all global tokens,   d the dilation of its head,
// in one softmax. A global token reads every token, with queries, keys and values of its own:
//   y_g = softmax(q'_g K'^T / sqrt D) V'.
// Causal: s <= 0, and global tokens no later than i; a global token reads those up to itself.
// Exact when the window covers the sequence.
#include <ATen/ATen.h>

#include "longbow/attention/longformer/global_rows.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/order.h"

namespace longbow {
namespace {

struct Config {
  int64_t window = 64;
  std::vector<int64_t> dilation = {1};
  int64_t global_tokens = 1;
  bool global_projections = true, official = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("window", c.window, "tokens that a query reads on each side", range(0, 65536));
  v("dilation", c.dilation, "every how many tokens the window has one; head h has entry h mod size",
    range(1, 4096));
  v("global_tokens", c.global_tokens,
    "so many tokens at the beginning read all and are read by all, besides those that the mask "
    "names",
    range(0, 4096));
  v("global_projections", c.global_projections,
    "global tokens read with queries, keys and values of their own");
  v("official", c.official,
    "as the Long Range Arena's code: one token less before than after the query; not when causal");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

// [B, H, N, D] at places [B, G] -> [B, H, G, D].
Tensor rows_at(const Tensor& x, const Tensor& places) {
  return x.gather(
      2, places.clamp_min(0).unsqueeze(1).unsqueeze(-1).expand({-1, x.size(1), -1, x.size(3)}));
}

class Longformer : public ProjectedMixer {
 public:
  Longformer(const Site& site, const Config& config)
      : ProjectedMixer(site),
        config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const int64_t width = site.shape.width, inner = site.shape.inner();
    if (config.global_projections) {
      global_query_ = linear(site, "global_query", width, inner);
      global_key_ = linear(site, "global_key", width, inner);
      global_value_ = linear(site, "global_value", width, inner);
    }
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto places = global_places(x, context);  // [B, G], -1 = none
    const bool whole = places.size(1) > 0 && !folds(places.size(1), context);
    const auto [heads, global] = all_heads(x, whole, context);
    if (places.size(1) == 0)
      return merged(near(heads, context.mask.keep, context).mean.to(x.scalar_type()));
    const auto real = real_globals(places, context.mask.keep);
    const auto y = reads_at_once(x.size(1), context)
                       ? near_and_first(heads, context)
                       : near(heads, without_globals(x, real, places, context.mask.keep), context) +
                             far(heads, places, real, context);
    const auto rows = global_rows_of(x, global, places, context);
    return with_rows_at(merged(y.mean.to(x.scalar_type())), merged(rows.to(x.scalar_type())),
                        places, real, context);
  }

  void open(State& state, int64_t lanes, int64_t capacity, Context&) override {
    const auto& weight = query_->weight;
    const int64_t width = weight.size(0) / heads_, first = config_.global_tokens;
    const auto none = at::zeros({lanes, heads_, 0, width}, weight.options());
    const int64_t reach = config_.window * *std::ranges::max_element(config_.dilation);
    open_ring(state, {none, none, none, {}, {}},
              std::max<int64_t>(std::min(reach + 1, capacity), 1));
    if (first == 0) return;
    for (const auto* name : {"first_keys", "first_values", "global_keys", "global_values"})
      state.add(name, {lanes, heads_, first + 1, width}, weight.options());
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    TORCH_CHECK(!context.mask.globals.defined(),
                "longformer: while decoding, only the first tokens can be global; set "
                "global_tokens");
    return merged(in_pieces(
        near_heads(x, context), context, ring_size(state),
        [&](const Heads& piece, Context& inner) { return grow_piece(piece, state, inner); }));
  }

 private:
  // Of all tokens, by the projections that windows use, or by those of global tokens.
  Tensor projected(const Linear& linear, const Tensor& x) const {
    return split_heads(linear(x), heads_);
  }
  Heads near_heads(const Tensor& x, const Context& context) const {
    return {rotated(projected(*query_, x), context) * scale_, rotated(projected(*key_, x), context),
            projected(*value_, x), x, x};
  }
  Tensor global_queries(const Tensor& x, const Context& context) const {
    return rotated(projected(*global_query_, x), context) * scale_;
  }
  // Keys and values; queries are those of the windows.
  Heads global_heads(const Heads& heads, const Context& context) const {
    if (!config_.global_projections) return heads;
    const auto& x = heads.x;
    return {heads.q, rotated(projected(*global_key_, x), context), projected(*global_value_, x), x,
            x};
  }

  // Both, by one product; queries are not scaled.
  struct AllHeads {
    Heads near, global;
  };
  AllHeads all_heads(const Tensor& x, bool globals, const Context& context) const {
    const bool own = globals && config_.global_projections;
    std::vector<const Linear*> layers = {query_.get(), key_.get(), value_.get()};
    if (own) layers.insert(layers.end(), {global_key_.get(), global_value_.get()});
    const auto rows = project_together(x, layers);
    const auto by_head = [&](size_t i) { return split_heads(rows[i], heads_); };
    const Heads near = {rotated(by_head(0), context), rotated(by_head(1), context), by_head(2), x,
                        x};
    return {near, own ? Heads{near.q, rotated(by_head(3), context), by_head(4), x, x} : near};
  }

  Tensor global_places(const Tensor& x, const Context& context) const {
    const int64_t first = std::min(config_.global_tokens, x.size(1));
    const auto places =
        at::arange(first, x.options().dtype(at::kLong)).unsqueeze(0).expand({x.size(0), -1});
    const auto& named = context.mask.globals;
    if (!named.defined()) return places;
    return at::cat({places, named.masked_fill(named < first, -1)}, 1);
  }
  static Tensor real_globals(const Tensor& places, const Tensor& keep) {
    const auto named = places >= 0;
    return keep.defined() ? named.logical_and(keep.gather(1, places.clamp_min(0))) : named;
  }
  // Keys that stand in windows: real ones that are not global.
  static Tensor without_globals(const Tensor& x, const Tensor& real, const Tensor& places,
                                const Tensor& keep) {
    const int64_t n = x.size(1);
    const auto all =
        keep.defined() ? keep : at::ones({x.size(0), n}, places.options().dtype(at::kBool));
    return at::constant_pad_nd(all, {0, 1})
        .scatter(1, places.masked_fill(real.logical_not(), n), false)
        .narrow(1, 0, n);
  }

  // Tokens of the window. With a dilation, those of one residue stand beside each other first.
  PartialSoftmax near(const Heads& heads, const Tensor& keep, const Context& context) const {
    const int64_t n = heads.q.size(2), w = std::min(config_.window, n);
    const int64_t block = std::min(std::max<int64_t>(w, kLeastBlock), n);
    const bool causal = context.mask.causal;
    const auto pairs = near_blocks(n, block, w > 0, w > 0 && !causal, heads.q.device());
    const int64_t missing = config_.official && !causal && w > 0;
    Visibility visibility = {.back = w - missing, .ahead = causal ? 0 : w, .keep = kept_keys(keep)};
    if (!dilated())
      return read_blocks(heads.q, heads.k, heads.v, pairs, visibility, weighing(), context, {}, {},
                         scale_);
    const auto t = at::arange(n, pairs.columns.options()), d = dilations(t);  // [N], [1, H, 1]
    const auto residue = t.remainder(d), step = t.floor_divide(d);
    const auto order = Order::by(residue * n + step);  // [1, H, N]
    visibility.query_positions = visibility.key_positions = order.sorted(step);
    visibility.query_groups = visibility.key_groups = order.sorted(residue);
    if (keep.defined()) visibility.keep = order.sorted(kept_keys(keep));
    return read_blocks(order.sorted(heads.q), order.sorted(heads.k), order.sorted(heads.v), pairs,
                       visibility, weighing(), context, {}, {}, scale_)
        .each([&](const Tensor& x) { return order.in_time(x); });
  }

  // Whether the global tokens are first ones that stand in one block and within each other's
  // windows: then a window and they are read by one call, which lists their block for all.
  bool reads_at_once(int64_t tokens, const Context& context) const {
    const int64_t w = std::min(config_.window, tokens);
    return !dilated() && !context.mask.globals.defined() &&
           config_.global_tokens <= std::min(w + 1, std::max<int64_t>(w, kLeastBlock));
  }
  PartialSoftmax near_and_first(const Heads& heads, const Context& context) const {
    const int64_t n = heads.q.size(2), w = std::min(config_.window, n);
    const int64_t block = std::min(std::max<int64_t>(w, kLeastBlock), n);
    const bool causal = context.mask.causal;
    auto pairs = near_blocks(n, block, w > 0, w > 0 && !causal, heads.q.device());
    const auto u = at::arange(pairs.columns.size(2), pairs.columns.options());
    const auto first = (u > (w > 0 ? 1 : 0)).to(at::kLong) - 1;  // 0, or -1 where it is near
    pairs.columns = at::cat({first.view({1, 1, -1, 1}), pairs.columns}, 3);
    pairs.readers = 0;
    const int64_t missing = config_.official && !causal && w > 0;
    return read_blocks(heads.q, heads.k, heads.v, pairs,
                       {.back = w - missing,
                        .ahead = causal ? 0 : w,
                        .first = config_.global_tokens,
                        .keep = kept_keys(context.mask.keep)},
                       weighing(), context, {}, {}, scale_);
  }

  PartialSoftmax far(const Heads& heads, const Tensor& places, const Tensor& real,
                     const Context& context) const {
    const auto pairs = one_block(heads.q.size(2), places.size(1), heads.q.device());
    const Visibility visibility = {.ahead = context.mask.causal ? 0 : Visibility::kAll,
                                   .keep = kept_keys(real),
                                   .key_positions = places.unsqueeze(1)};
    auto own = weighing();
    own.path += ".global_keys";
    return read_blocks(heads.q, rows_at(heads.k, places), rows_at(heads.v, places), pairs,
                       visibility, own, context, {}, {}, scale_);
  }

  // Whether keys and values of global tokens, which few tokens read, are not formed. Rotated keys
  // differ from place to place.
  bool folds(int64_t globals, const Context& context) const {
    constexpr int64_t kLeast = 4;  // times as many channels as weights of a token
    const bool drops = is_training() && config_.dropout > 0;
    return config_.global_projections && !rotates() && !drops && !context.maps &&
           kLeast * heads_ * globals <= global_key_->weight.size(0);
  }

  // y [B, N, C], which nothing else reads, with the rows [B, G, C] of global tokens.
  static Tensor with_rows_at(Tensor y, const Tensor& rows, const Tensor& places, const Tensor& real,
                             const Context& context) {
    const auto at = [&](const Tensor& place) { return place.unsqueeze(-1).expand_as(rows); };
    // The first tokens are there, though some may be padded; of those that are named some are not.
    if (!context.mask.globals.defined()) return y.scatter_(1, at(places), rows);
    const int64_t n = y.size(1);
    return at::constant_pad_nd(y, {0, 0, 0, 1})
        .scatter(1, at(places.masked_fill(real.logical_not(), n)), rows)
        .narrow(1, 0, n);
  }

  // What global tokens at `places` read: [B, H, G, D].
  Tensor global_rows_of(const Tensor& x, const Heads& heads, const Tensor& places,
                        Context& context) const {
    auto visible = visible_keys(context.mask.keep);
    if (context.mask.causal) {
      const auto past =
          at::arange(x.size(1), places.options()) <= places.unsqueeze(-1);  // [B, G, N]
      visible = visible.defined() ? visible.logical_and(past.unsqueeze(1)) : past.unsqueeze(1);
    }
    if (folds(places.size(1), context))
      return global_rows(x, places.clamp_min(0), visible,
                         {*global_query_, *global_key_, *global_value_, heads_, scale_});
    auto own = weighing();
    own.path += ".global_rows";
    auto q = rows_at(heads.q, places) * scale_;
    if (config_.global_projections) {
      const auto index = places.clamp_min(0);
      Context there = context;
      there.positions = context.positions.defined()
                            ? context.positions.expand({x.size(0), -1}).gather(1, index)
                            : index;
      q = global_queries(x.gather(1, index.unsqueeze(-1).expand({-1, -1, x.size(2)})), there);
    }
    return softmax_read(q, heads.k, heads.v, visible, own, context);
  }

  // The first tokens stand before the ring; of those in the ring they are no part.
  Tensor grow_piece(const Heads& heads, State& state, Context& context) const {
    const int64_t first = config_.global_tokens;
    const auto i = context.positions.unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
    const Reach reach = [&](const Tensor& query, const Tensor& key) {
      const auto d = dilations(query).unsqueeze(-1);  // [1, H, 1, 1]
      const auto distance = query - key;
      return (distance <= d * config_.window)
          .logical_and(distance.remainder(d) == 0)
          .logical_and(key >= first);
    };
    const auto recent = pass_ring(heads, state, reach, context);
    if (first == 0)
      return softmax_read(heads.q, recent.k, recent.v, recent.visible, weighing(), context);
    const auto place = slots_of(heads, context, first).clamp_max(first);
    const auto seen = at::arange(first + 1, i.options()) <= i;  // [B, 1, T, first + 1]
    const auto there = seen.logical_and(at::arange(first + 1, i.options()) < first);
    const auto write = [&](const char* name, const Tensor& rows) -> const Tensor& {
      auto& lane = state.lane.at(name);
      write_slots(lane, place, rows);
      return lane;
    };
    const auto of = global_heads(heads, context);
    const auto &keys = write("first_keys", heads.k), &values = write("first_values", heads.v);
    const auto &own_keys = write("global_keys", of.k), &own_values = write("global_values", of.v);
    const auto y = softmax_read(
        heads.q, at::cat({keys, recent.k}, 2), at::cat({values, recent.v}, 2),
        at::cat({there.expand({-1, heads_, -1, -1}), recent.visible}, 3), weighing(), context);
    const auto q = config_.global_projections ? global_queries(heads.x, context) : heads.q;
    const auto rows = softmax_read(q, own_keys, own_values, there, weighing(), context);
    return at::where(i < first, rows, y);
  }

  bool dilated() const {
    return std::ranges::any_of(config_.dilation, [](int64_t d) { return d > 1; });
  }
  // Of each head: [1, H, 1].
  Tensor dilations(const Tensor& like) const {
    const auto size = static_cast<int64_t>(config_.dilation.size());
    auto all = at::ones({1, heads_, 1}, like.options());
    if (!dilated()) return all;
    for (int64_t h = 0; h < heads_; ++h)
      all.select(1, h).fill_(config_.dilation[static_cast<size_t>(h % size)]);
    return all;
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  static constexpr int64_t kLeastBlock = 32;
  Config config_;
  std::string path_;
  double scale_;
  std::shared_ptr<Linear> global_query_, global_key_, global_value_;
};

Promises promises(const Config&) {
  return {
      .future = Future::exact, .globals = true, .decode = true, .positional = true, .rotary = true};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Longformer>(site, c);
}

void check(const Config& c, const Site&) {
  require_option(!c.dilation.empty(), "dilation", "is empty", "[1] is a window without gaps");
}

}  // namespace

Mechanism longformer_mechanism() {
  return over_tokens<Config>(
      {.name = "longformer",
       .family = "window",
       .paper = "arXiv:2004.05150",
       .cost = "O(N (W + G) D)",
       .summary = "Tokens attend within a sliding window; global tokens attend to all.",
       .exact = "window >= N - 1 without global projections: softmax",
       .variants = {{"plain", "{window: 7, global_tokens: 0}"},
                    {"dilated", "{window: 5, dilation: [1, 3], global_tokens: 2}"},
                    {"shared", "{window: 3, global_projections: false}"},
                    {"official", "{window: 4, global_tokens: 0, official: true}"}}},
      promises, make, check);
}

}  // namespace longbow
