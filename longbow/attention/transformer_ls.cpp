// Transformer-LS, long-short attention (Zhu et al., 2021, arXiv:2107.02192): a query reads the
// tokens of a window one by one, and all tokens through R rows that a softmax over the tokens
// forms; one softmax over both:
//   Pi_r = softmax_j(x_j . p_r),   k~_r = LN_2(sum_j Pi_rj LN_1(k_j)),   v~_r alike,
//   o_i  = softmax(q_i [K~ ; LN_1(K near i)]^T / sqrt D) [V~ ; LN_1(V near i)].
// Near i are the segment of W tokens that i is in and max(W div 2, 1) tokens on each side of it.
// Causally the window is the last W tokens, and each chunk of L <= W tokens has R rows of its own,
//   k~_cr = LN_2(sum_{j in c} Pi_rj k_j),   Pi_r a softmax over the tokens of chunk c,
// which queries of later chunks read.
// Exact when there are no rows and no norms, and the window covers the sequence.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/layers/past_rows.h"
#include "longbow/nn/layers/taps.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/joint_softmax.h"

namespace longbow {
namespace {

constexpr double kNothing = -3.4e38;  // the largest logit of a chunk before its first token

struct Config {
  int64_t window = 64, rank = 16, chunk = 0;
  bool dual_norm = true, cls = false;
  int64_t convolution = 0;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("window", c.window,
    "tokens of a segment; causally those that a query reads, itself one, and at least a chunk",
    range(1, 65536));
  v("rank", c.rank, "rows that a sequence, or causally a chunk, is projected to", range(0, 65536));
  v("chunk", c.chunk,
    "causal: tokens of a chunk, at most the window; 0 = the root of rank times the model's "
    "max_length, at least the window",
    range(0, 65536));
  v("dual_norm", c.dual_norm,
    "layer norms over all heads, one for window keys and values, one for projected ones");
  v("cls", c.cls,
    "the first token stands outside of the windows: all read it, and it reads what the others have "
    "read; not causal");
  v("convolution", c.convolution,
    "taps, for each head, of a convolution over the values that is added to what was read; 0 = "
    "none",
    range(0, 1024));
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

// As many tokens one by one as rows of the chunks before them, where that is not less than the
// window.
int64_t chunk_length(const Config& c, const Site& site) {
  if (c.chunk > 0 || c.rank == 0) return std::max<int64_t>(c.chunk, 1);
  const auto rows = static_cast<double>(c.rank * site.shape.max_length);
  return std::max(c.window, static_cast<int64_t>(std::ceil(std::sqrt(rows))));
}

struct Rows {
  Tensor k, v;  // [B, H, M, D]

  template <class F>
  Rows each(const F& f) const {
    return {f(k), f(v)};
  }
};

class TransformerLs : public AttentionImpl {
 public:
  TransformerLs(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        chunk_(chunk_length(config, site)),
        last_(std::max(config.window, chunk_)),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    // In a softmax over tokens a bias would be the same for all of them and cancel.
    if (config.rank > 0)
      projection_ = parameter(
          "projection", initial_matrix(site, "projection", heads_ * config.rank, site.shape.width));
    if (config.dual_norm) {
      window_norm_ =
          register_module("window_norm", std::make_shared<LayerNorm>(site.shape.inner()));
      rank_norm_ = register_module("rank_norm", std::make_shared<LayerNorm>(site.shape.inner()));
    }
    if (config.convolution > 0) taps_ = parameter("taps", at::zeros({heads_, config.convolution}));
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (config_.cls) return beside_cls(heads, context);
    if (context.mask.causal) return causal(heads, context);
    const auto near = normed(window_norm_, {heads.k, heads.v});
    return plus_convolution(around(heads, near, {}, context), near.v, context);
  }

  // A ring for the window, and for each chunk the sums of its tokens, relative to the largest
  // logit.
  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    const auto& k = empty.k;
    open_ring(state, empty, std::max<int64_t>(std::min(last_, capacity), 1));
    const auto sums = k.options().dtype(wide(k));
    const int64_t lanes = k.size(0), width = k.size(3), r = config_.rank,
                  chunks = (capacity + chunk_ - 1) / chunk_ + 1;  // and one for padded tokens
    if (r > 0) {
      state.add("chunk_max", {lanes, heads_, chunks, r}, sums, kNothing);
      state.add("chunk_weights", {lanes, heads_, chunks, r}, sums);
      state.add("chunk_keys", {lanes, heads_, chunks, r * width}, sums);
      state.add("chunk_values", {lanes, heads_, chunks, r * width}, sums);
    }
    if (taps_.defined())
      open_past_rows(state, "rows", lanes, config_.convolution - 1, heads_ * width, k.options());
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    auto given = heads;
    const auto near = normed(window_norm_, {heads.k, heads.v});
    given.q = heads.q * scale_;
    if (config_.rank > 0) add_to_chunks(heads, state, context);
    const auto far = config_.rank > 0 ? seen_chunks(state, heads.k.scalar_type()) : Rows();
    given.k = near.k;
    given.v = near.v;
    const auto y =
        in_pieces(given, context, ring_size(state), [&](const Heads& piece, Context& inner) {
          const auto recent = pass_ring(piece, state, reach(), inner);
          std::vector<KeyFamily> families = {
              {piece.q.matmul(recent.k.transpose(-2, -1)), recent.visible, recent.v}};
          if (far.k.defined()) {
            const auto own = inner.positions.floor_divide(chunk_).unsqueeze(1).unsqueeze(-1);
            families.push_back({piece.q.matmul(far.k.transpose(-2, -1)),
                                chunk_of(far.k.size(2), own) < own, far.v});
          }
          return joint_softmax(families, weighing(), inner);
        });
    if (!taps_.defined()) return y;
    const auto rows = grow_past_rows(state, "rows", real_rows(near.v, context), context);
    return y + split_heads(taps_over(rows, taps_), heads_);
  }

 private:
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }
  Reach reach() const { return within(last_ - 1, 0); }

  Rows normed(const std::shared_ptr<LayerNorm>& norm, const Rows& rows) const {
    if (!norm) return rows;
    return rows.each([&](const Tensor& x) { return split_heads((*norm)(merge_heads(x)), heads_); });
  }

  // x_j . p_r, float32 at least: [B, H, N, R].
  Tensor logits(const Tensor& x) const {
    const auto y = at::linear(x, projection_);
    return split_heads(y.to(wide(y)), heads_);
  }
  // Sums over tokens are float32 at least: on a GPU products of half types are added up so.
  static Tensor weighted(const Tensor& pi, const Tensor& rows) {
    if (rows.is_cuda()) return pi.to(rows.scalar_type()).matmul(rows);
    return pi.matmul(rows.to(pi.scalar_type())).to(rows.scalar_type());
  }

  // The R rows of a whole sequence, before their norm; none where there are no rows.
  Rows projected(const Heads& heads, const Rows& near, const Tensor& keep) const {
    if (config_.rank == 0) return {};
    const auto pi = masked_softmax(logits(heads.source).transpose(-2, -1), visible_keys(keep));
    return near.each([&](const Tensor& x) { return weighted(pi, x); });
  }

  // A segment reads itself and what stands around it.
  Tensor around(const Heads& heads, const Rows& near, const Rows& first, Context& context) {
    const int64_t n = heads.q.size(2), w = std::min(config_.window, n), others = (n - 1) / w * w;
    const int64_t side = std::min(std::max<int64_t>(w / 2, 1), others);
    auto far = projected(heads, near, context.mask.keep);
    if (first.k.defined())
      far = far.k.defined() ? Rows{at::cat({first.k, far.k}, 2), at::cat({first.v, far.v}, 2)}
                            : first;
    const auto read =
        read_blocks(heads.q, near.k, near.v, blocks_around(n, w, side, heads.q.device()),
                    {.keep = kept_keys(context.mask.keep)}, weighing(), context, {}, {}, scale_);
    if (!far.k.defined()) return read.mean.to(near.v.scalar_type());
    const auto all = one_block(n, far.k.size(2), heads.q.device());
    return with_far(read, heads.q, far, all, {}, context).to(near.v.scalar_type());
  }

  // Chunks that are over before the last token; those are whole.
  Tensor causal(const Heads& heads, const Context& context) const {
    const int64_t n = heads.q.size(2), chunks = config_.rank > 0 ? (n - 1) / chunk_ : 0;
    const auto of = heads_for(heads, chunks > 0 ? 2 : 1);
    const auto near = normed(window_norm_, {of[0].k, of[0].v});
    const auto read = read_window({.q = of[0].q, .k = near.k, .v = near.v}, last_ - 1, 0,
                                  weighing(), context, scale_);
    auto y = read.mean;
    if (chunks > 0) {
      const auto& [pairs, earlier] = earlier_chunks(chunks, heads.q);
      y = with_far(read, of[1].q, by_chunk(of[1], chunks, context), pairs, earlier, context);
    }
    return plus_convolution(y.to(near.v.scalar_type()), near.v, context);
  }

  // The R rows of each chunk: a row reads with the logits themselves for scores, e_r . (p_s .
  // x_j)_s.
  Rows by_chunk(const Heads& heads, int64_t chunks, const Context& context) const {
    const int64_t r = config_.rank;
    const auto whole = [&](const Tensor& x) {  // kernels do not read what no list names
      return has_lists(x) ? x : x.narrow(2, 0, chunks * chunk_);
    };
    const auto a =
        whole(split_heads(at::linear(heads.source, projection_), heads_));  // [B, H, N, R]
    const auto unit = at::eye(r, a.options()).repeat({chunks, 1});
    const auto rows = unit.expand({a.size(0), a.size(1), -1, -1});
    const BlockPairs pairs = {
        r, chunk_, at::arange(chunks, a.options().dtype(at::kLong)).view({1, 1, -1, 1}), 1};
    return Rows{heads.k, heads.v}.each([&](const Tensor& x) {
      return read_blocks(rows, a, whole(x), pairs, {}, {}, context).mean.to(x.scalar_type());
    });
  }

  // Whether kernels read listed blocks; a formula computes all that are listed anywhere.
  static bool has_lists(const Tensor& x) {
    return x.is_cpu() || at::isReducedFloatingType(x.scalar_type());
  }

  // A query reads the rows of earlier chunks than its own. Blocks are chunks, or several where
  // there are many; then those that a query reads in part are compared by chunks. Without kernels
  // all are one block.
  Window earlier_chunks(int64_t chunks, const Tensor& q) const {
    constexpr int64_t kMostBlocks = 64;
    const int64_t n = q.size(2), each = (chunks + kMostBlocks - 1) / kMostBlocks,
                  rows = chunks * config_.rank;
    const auto t = at::arange(n, q.options().dtype(at::kLong)).view({1, 1, n});
    const auto by_chunk = [&] {
      return Visibility{.ahead = -1,
                        .query_positions = t.floor_divide(chunk_),
                        .key_positions = chunk_of(rows, t).view({1, 1, -1})};
    };
    if (!has_lists(q)) return {one_block(n, rows, q.device()), by_chunk()};
    const int64_t blocks = (n + each * chunk_ - 1) / (each * chunk_),
                  read = (chunks + each - 1) / each;
    const auto u = at::arange(blocks, t.options()), j = u.narrow(0, 0, read);
    const auto past = each > 1 ? j <= u.unsqueeze(1) : j < u.unsqueeze(1);
    const BlockPairs pairs = {each * chunk_, each * config_.rank,
                              at::where(past, j, -1).unsqueeze(0).unsqueeze(0), blocks};
    return {pairs, each > 1 ? by_chunk() : Visibility()};
  }

  // The chunk that each of the projected rows belongs to.
  Tensor chunk_of(int64_t rows, const Tensor& like) const {
    return at::arange(rows, like.options()).floor_divide(config_.rank);
  }

  // One softmax over the tokens that were read and the projected rows.
  Tensor with_far(const PartialSoftmax& read, const Tensor& q, const Rows& far,
                  const BlockPairs& pairs, const Visibility& visibility,
                  const Context& context) const {
    const auto rows = normed(rank_norm_, far);
    auto own = weighing();
    own.path += ".far";
    return (read + read_blocks(q, rows.k, rows.v, pairs, visibility, own, context, {}, {}, scale_))
        .mean;
  }

  // The first token's key and value join the projected rows; its own row reads what others read.
  Tensor beside_cls(const Heads& heads, Context& context) {
    const int64_t others = heads.q.size(2) - 1;
    if (others == 0) return heads.v;
    const auto first = [](const Tensor& x) { return x.narrow(2, 0, 1); };
    const auto rest = [&](const Tensor& x, int64_t dim) { return x.narrow(dim, 1, others); };
    auto inner = context;
    if (context.mask.keep.defined()) inner.mask.keep = rest(context.mask.keep, 1);
    const Rows cls = {first(heads.k), first(heads.v)};
    const auto near = normed(window_norm_, {rest(heads.k, 2), rest(heads.v, 2)});
    const auto y = around({rest(heads.q, 2), {}, {}, {}, rest(heads.source, 1)}, near, cls, inner);
    auto own = weighing();
    own.path += ".cls";
    const auto summary =
        softmax_read(first(heads.q) * scale_, at::cat({cls.k, y}, 2), at::cat({cls.v, y}, 2),
                     visible_keys(context.mask.keep), own, context);
    return at::cat({summary, plus_convolution(y, near.v, inner)}, 2);
  }

  // [B, H, N, D] -> [B, N, H D], zero where padded.
  Tensor real_rows(const Tensor& v, const Context& context) const {
    return zero_where_padded(merge_heads(v), context.mask.keep);
  }
  Tensor plus_convolution(const Tensor& y, const Tensor& v, const Context& context) const {
    if (!taps_.defined()) return y;
    const int64_t others = config_.convolution - 1;
    const auto rows = real_rows(v, context);
    return y + split_heads(windowed_taps(rows, taps_, context.mask.causal ? others : others / 2),
                           heads_);
  }

  // Tokens are added to the sums of their chunks, relative to the largest logit so far.
  void add_to_chunks(const Heads& heads, State& state, const Context& context) const {
    auto& lane = state.lane;
    const int64_t chunks = lane.at("chunk_max").size(2);
    const auto a = logits(heads.source);  // [B, H, T, R]
    const auto index = slots_of(heads, context, (chunks - 1) * chunk_)
                           .floor_divide(chunk_)
                           .unsqueeze(1)
                           .unsqueeze(-1);  // [B, 1, T, 1]
    const auto at_token = index.expand_as(a);
    const auto before = lane.at("chunk_max");
    const auto top = before.scatter_reduce(2, at_token, a.detach(), "amax");
    const auto shrink = (before - top).exp();
    const auto w = (a - top.gather(2, at_token)).exp();
    lane["chunk_max"] = top;
    lane["chunk_weights"] = (lane.at("chunk_weights") * shrink).scatter_add(2, at_token, w);
    const auto add = [&](const char* name, const Tensor& rows) {
      const int64_t width = rows.size(3);
      const auto more = (w.unsqueeze(-1) * rows.to(w.scalar_type()).unsqueeze(3)).flatten(3);
      lane[name] = (lane.at(name) * shrink.repeat_interleave(width, -1))
                       .scatter_add(2, index.expand_as(more), more);
    };
    add("chunk_keys", heads.k);
    add("chunk_values", heads.v);
  }

  // The rows of all chunks; of those that are not over, what there is so far.
  Rows seen_chunks(const State& state, at::ScalarType type) const {
    const auto& lane = state.lane;
    const auto weights = lane.at("chunk_weights").unsqueeze(-1);  // [B, H, chunks, R, 1]
    const auto mean = [&](const Tensor& sums) {
      const auto rows = sums.unflatten(3, {config_.rank, -1});
      return (rows / weights.masked_fill(weights == 0, 1)).flatten(2, 3).to(type);
    };
    return normed(rank_norm_, Rows{lane.at("chunk_keys"), lane.at("chunk_values")}.each(mean));
  }

  Config config_;
  int64_t heads_;
  int64_t chunk_, last_;  // causal: tokens of a chunk, and tokens that a query reads one by one
  std::string path_;
  double scale_;
  Tensor projection_, taps_;  // [H R, C], [H, taps]
  std::shared_ptr<LayerNorm> window_norm_, rank_norm_;
};

void check(const Config& c, const Site&) {
  require_option(c.chunk <= c.window, "chunk",
                 c10::str("is ", c.chunk, ", but a window of ", c.window,
                          " would miss tokens of the query's own chunk"),
                 "take at most the window");
}

// A causal query reads R rows of each chunk before it, and chunks are longer in longer sequences
// where their length is not given.
Promises promises(const Config& c) {
  const double exponent = c.rank == 0 || c.cls ? 1 : c.chunk == 0 ? 1.5 : 2;
  return {.future = c.cls ? Future::refused : Future::exact,
          .decode = !c.cls,
          .positional = true,
          .causal_time = exponent,
          .causal_memory = exponent};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<TransformerLs>(site, c);
}

}  // namespace

Mechanism transformer_ls_mechanism() {
  return over_heads<Config>(
      {.name = "transformer_ls",
       .family = "low rank",
       .paper = "arXiv:2107.02192",
       .cost = "O(N (R + W) D)",
       .summary = "Tokens near a query one by one, and all tokens through a few rows that depend "
                  "on them, in one softmax.",
       .exact = "rank 0 without dual_norm, window >= N: softmax",
       .variants = {{"small", "{window: 5, rank: 3, chunk: 4}"},
                    {"plain", "{window: 4, rank: 2, dual_norm: false}"},
                    {"window", "{window: 6, rank: 0}"},
                    {"cls", "{window: 4, rank: 3, cls: true, convolution: 3}"},
                    {"convolution", "{window: 8, rank: 2, chunk: 5, convolution: 4}"}}},
      promises, make, check);
}

}  // namespace longbow
