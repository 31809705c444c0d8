// Sparse factorised attention (Generating Long Sequences with Sparse Transformers, 2019,
// arXiv:1904.10509): each of two patterns reads about sqrt N keys, and two layers of them, or one
// with both, reach all.
//   strided:  near  |i - j| < L              far  (i - j) mod L = 0
//   fixed:    near  i div L = j div L        far  j mod L >= L - c, the summary of a block
// All with j <= i when causal. A query always reads itself.
// Exact when L >= N.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/columns.h"
#include "longbow/ops/order_softmax.h"

namespace longbow {
namespace {

enum class Pattern { strided, fixed };
constexpr std::array<std::string_view, 2> names_of(Pattern) {
  return {"strided", "fixed"};
}
enum class Combine { merged, layers, heads };
constexpr std::array<std::string_view, 3> names_of(Combine) {
  return {"merged", "layers", "heads"};
}

struct Config {
  Pattern pattern = Pattern::strided;
  Combine combine = Combine::merged;
  int64_t stride = 0, summary = 8, slices = 1;
  bool official = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("pattern", c.pattern, "strided suits grids, fixed suits texts");
  v("combine", c.combine,
    "merged: every head reads both parts in one softmax; layers: near and far in turn; heads: half "
    "of the heads each");
  v("stride", c.stride, "L; 0 = about the square root of the longest sequence", range(0, 65536));
  v("summary", c.summary, "fixed: so many tokens at the end of a block that later ones read",
    range(1, 65536));
  v("slices", c.slices,
    "fixed: head h reads the tokens before those that head h - 1 reads, and starts again after so "
    "many",
    range(1, 4096));
  v("official", c.official,
    "as the Long Range Arena's code, for pattern fixed: causal under any mask, the first token of "
    "a "
    "block is a summary too, and the first of all reads every token");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

int64_t stride_of(const Config& c, const Site& site) {
  if (c.stride > 0) return c.stride;
  const auto longest = static_cast<double>(std::max<int64_t>(site.shape.max_length, 1));
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(std::sqrt(longest))),
                           c.pattern == Pattern::fixed ? c.summary * c.slices : 1);
}

class Sparse : public AttentionImpl {
 public:
  Sparse(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))),
        stride_(stride_of(config, site)),
        layer_(site.layer) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const auto type = heads.v.scalar_type();
    if (config_.official && !context.mask.causal) return official(heads, context).to(type);
    if (config_.combine == Combine::merged) return merged(heads, context).to(type);
    const auto one = [&](const Heads& part, bool is_far) {
      return (is_far ? far(part, context, /*alone=*/true) : near(part, context)).mean.to(type);
    };
    if (config_.combine == Combine::layers) return one(heads, layer_ % 2 == 1);
    const int64_t h = heads.q.size(1), half = (h + 1) / 2;
    if (h == 1) return one(heads, false);
    const auto some = [&](int64_t first, int64_t count) {
      const auto of = [&](const Tensor& x) { return x.narrow(1, first, count); };
      return Heads{of(heads.q), of(heads.k), of(heads.v), heads.x, heads.source};
    };
    return at::cat({one(some(0, half), false), one(some(half, h - half), true)}, 1);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }
  // The patterns over the cache: a query reads few of its keys, but looks at all.
  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      const auto visible =
          cached.visible.logical_and(pattern(piece.q.size(1), inner.positions, cached.k.size(2)));
      return softmax_read(piece.q * scale_, cached.k, cached.v, visible, weighing("near"), inner);
    });
  }

 private:
  // The first token stands for a summary of the whole.
  Tensor official(const Heads& heads, Context& context) const {
    Context causal = context;
    causal.mask.causal = true;
    const auto y = merged(heads, causal);
    const auto first = softmax_read(heads.q.narrow(2, 0, 1) * scale_, heads.k, heads.v,
                                    visible_keys(context.mask.keep), weighing("first"), context);
    return at::cat({first.to(y.scalar_type()), y.narrow(2, 1, y.size(2) - 1)}, 2);
  }

  Tensor merged(const Heads& heads, const Context& context) const {
    const auto of = heads_for(heads, 2);
    return (near(of[0], context) + far(of[1], context, /*alone=*/false)).mean;
  }

  PartialSoftmax near(const Heads& heads, const Context& context) const {
    const int64_t n = heads.q.size(2), block = std::min(stride_, n);
    const bool causal = context.mask.causal, strided = config_.pattern == Pattern::strided;
    Visibility visibility = {.ahead = causal ? 0 : Visibility::kAll,
                             .keep = kept_keys(context.mask.keep)};
    if (strided) visibility.back = stride_ - 1;
    if (strided && !causal) visibility.ahead = stride_ - 1;
    const auto pairs = near_blocks(n, block, strided, strided && !causal, heads.q.device());
    return read_blocks(heads.q, heads.k, heads.v, pairs, visibility, weighing("near"), context, {},
                       {}, scale_);
  }

  PartialSoftmax far(const Heads& heads, const Context& context, bool alone) const {
    return config_.pattern == Pattern::strided ? columns(heads, context, alone)
                                               : summaries(heads, context, alone);
  }

  // Tokens of one residue stand beside each other: [L, N / L] instead of [N / L, L], with places
  // behind some of them that are not there. Beside `near`, which has it, a query does not read
  // itself here.
  PartialSoftmax columns(const Heads& heads, const Context& context, bool alone) const {
    const auto& keep = context.mask.keep;
    Visibility visibility = {.ahead = context.mask.causal ? 0 : Visibility::kAll,
                             .apart = alone ? 0 : 1};
    const bool drops = is_training() && config_.dropout > 0;
    if (!drops && has_order_kernel(heads.q, heads.k, heads.v)) {
      visibility.keep = kept_keys(keep);
      return read_columns(heads, stride_, visibility, scale_);
    }
    const int64_t n = heads.q.size(2), rows = (n + stride_ - 1) / stride_, all = rows * stride_;
    const auto turned = column_orders(heads.q, stride_);
    const auto filled = [&](const Tensor& x) {
      return n < all ? at::constant_pad_nd(x, {0, 0, 0, all - n}) : x;
    };
    const auto sorted = [&](const Tensor& x) {
      return in_orders(filled(x), turned, all).squeeze(2);
    };
    if (keep.defined() || n < all) {
      const auto real =
          keep.defined() ? keep : at::ones({1, n}, heads.q.options().dtype(at::kBool));
      visibility.keep = filled(real.unsqueeze(1).unsqueeze(-1))
                            .view({-1, 1, rows, stride_})
                            .transpose(2, 3)
                            .flatten(2);
    }
    const auto read = read_blocks(sorted(heads.q), sorted(heads.k), sorted(heads.v),
                                  column_pairs(heads.q, stride_), visibility, weighing("far"),
                                  context, {}, {}, scale_);
    const auto in_time = join_orders({read.mean.unsqueeze(2), read.log_sum.unsqueeze(2)}, turned);
    if (n == all) return {in_time.out, in_time.log_sum};
    return {in_time.out.narrow(2, 0, n), in_time.log_sum.narrow(2, 0, n)};
  }

  // The last tokens of every block, of each slice of heads its own, beside each other: N / L c
  // keys. Beside `near`, which has them, those of the own block are not read here; alone, the query
  // itself is read too.
  PartialSoftmax summaries(const Heads& heads, const Context& context, bool alone) const {
    const int64_t n = heads.q.size(2), h = heads.q.size(1);
    const auto options = heads.q.options().dtype(at::kLong);
    const auto place = summary_places(h, n, options);  // [H, S]
    const auto index = place.clamp_max(n - 1).unsqueeze(0);
    const auto gathered = [&](const Tensor& x) {
      return x.gather(2, index.unsqueeze(-1).expand({x.size(0), -1, -1, x.size(3)}));
    };
    const auto there = (place < n).unsqueeze(0);  // [1, H, S]
    const auto& keep = context.mask.keep;
    Visibility visibility = {.ahead = context.mask.causal ? 0 : Visibility::kAll, .keep = there};
    if (keep.defined())
      visibility.keep = there.logical_and(
          keep.unsqueeze(1).expand({-1, h, -1}).gather(2, index.expand({keep.size(0), -1, -1})));
    const auto t = at::arange(n, options).view({1, 1, n});
    const auto blocks = [&](const Tensor& x) { return x.floor_divide(stride_); };
    // Compared are blocks, or tokens when alone.
    visibility.query_positions = alone ? t : blocks(t);
    visibility.key_positions = alone ? place.unsqueeze(0) : blocks(place.unsqueeze(0));
    visibility.apart = 1;
    const auto pairs = one_block(n, place.size(1), heads.q.device());
    const auto read = read_blocks(heads.q, gathered(heads.k), gathered(heads.v), pairs, visibility,
                                  weighing("far"), context, {}, {}, scale_);
    return alone ? read + itself(heads, context) : read;
  }
  PartialSoftmax itself(const Heads& heads, const Context& context) const {
    const auto& keep = context.mask.keep;
    const auto score = (heads.q * heads.k).sum(-1, true).unsqueeze(-1) * scale_;  // [B, H, N, 1, 1]
    const auto visible = keep.defined() ? keep.view({keep.size(0), 1, -1, 1, 1})
                                        : at::ones({1}, score.options().dtype(at::kBool));
    return PartialSoftmax::over(score, visible, heads.v.unsqueeze(-2)).each([](const Tensor& x) {
      return x.squeeze(-2);
    });
  }
  // [H, blocks c]: the slice of head h begins (h mod slices + 1) c before the end of a block.
  Tensor summary_places(int64_t heads, int64_t n, const at::TensorOptions& options) const {
    const int64_t blocks = (n + stride_ - 1) / stride_;
    const auto slice = at::arange(heads, options).remainder(config_.slices).view({-1, 1, 1});
    auto offset = stride_ - (slice + 1) * config_.summary + at::arange(config_.summary, options);
    if (config_.official)  // the first token too; where the slice begins with it, one behind all
      offset = at::cat({(offset.narrow(-1, 0, 1) == 0).to(at::kLong) * n, offset}, -1);
    return (at::arange(blocks, options).view({1, -1, 1}) * stride_ + offset).flatten(1);
  }

  // Which keys of a cache the tokens at `positions` [B, T] read: [B, H or 1, T, S] bool.
  Tensor pattern(int64_t heads, const Tensor& positions, int64_t size) const {
    const auto i = positions.unsqueeze(1).unsqueeze(-1);
    const auto j = at::arange(size, positions.options());
    const bool strided = config_.pattern == Pattern::strided;
    const auto near_ones =
        strided ? i - j < stride_ : i.floor_divide(stride_) == j.floor_divide(stride_);
    const auto h = at::arange(heads, positions.options()).view({1, -1, 1, 1});
    const int64_t half = config_.combine == Combine::heads ? (heads + 1) / 2 : 0;
    const auto last = stride_ - (h - half).remainder(config_.slices) * config_.summary;
    const auto offset = j.remainder(stride_);
    auto summary = (offset < last).logical_and(offset >= last - config_.summary).logical_or(i == j);
    if (config_.official) summary = summary.logical_or(offset == 0);
    const auto far_ones = strided ? (i - j).remainder(stride_) == 0 : summary;
    if (config_.combine == Combine::merged) return near_ones.logical_or(far_ones);
    if (config_.combine == Combine::layers) return layer_ % 2 == 1 ? far_ones : near_ones;
    return at::where(h < half, near_ones, far_ones);
  }

  Weighing weighing(const char* part) const {
    return {config_.dropout, is_training(), path_ + "." + part};
  }

  static constexpr int64_t kPiece = 256;
  Config config_;
  std::string path_;
  double scale_;
  int64_t stride_, layer_;
};

// With a stride of its own a row is quadratic in the end: N / L keys of every query grow with N.
Promises promises(const Config& c) {
  const double exponent = c.stride > 0 ? 2 : 1.5;
  return {.future = Future::exact,
          .decode = true,
          .positional = true,
          .time = exponent,
          .memory = exponent};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Sparse>(site, c);
}

void check(const Config& c, const Site&) {
  const bool fixed = c.pattern == Pattern::fixed;
  require_option(!fixed || c.stride == 0 || c.summary * c.slices <= c.stride, "summary",
                 "times slices is more than stride", "a block must hold all summaries");
  require_option(!c.official || (fixed && c.combine == Combine::merged), "official",
                 "needs pattern: fixed and combine: merged", "set both, or leave it out");
}

}  // namespace

Mechanism sparse_mechanism() {
  return over_heads<Config>(
      {.name = "sparse",
       .family = "sparse",
       .paper = "arXiv:1904.10509",
       .cost = "O(N (L + N/L) D)",
       .summary = "Tokens attend to near ones and to every L-th, or to the ends of earlier blocks.",
       .exact = "stride >= N: softmax",
       .variants = {{"fixed", "{pattern: fixed, stride: 12, summary: 2, slices: 2}"},
                    {"layers", "{combine: layers, stride: 7}"},
                    {"heads", "{pattern: fixed, combine: heads, summary: 3}"},
                    {"official", "{pattern: fixed, stride: 10, summary: 3, official: true}"},
                    {"official_whole",
                     "{pattern: fixed, stride: 6, summary: 3, slices: 2, official: true}"}}},
      promises, make, check);
}

}  // namespace longbow
