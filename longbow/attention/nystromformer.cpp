// Nystromformer (Xiong et al., 2021, arXiv:2102.03902): the softmax matrix is rebuilt from R
// landmarks, the means q~, k~ of R consecutive segments of queries and keys (Nystrom's method):
//   o = F1 F2^+ (F3 V) + conv(V),
//   F1 = softmax(q k~^T) [N, R],  F2 = softmax(q~ k~^T) [R, R],  F3 = softmax(q~ k^T) [R, M],
// with q and k scaled by D^(-1/4) each. The pseudo-inverse F2^+ is iterated, and the convolution
// over the length, one filter per head, keeps what is local.
// Exact (without the convolution) when R >= N and the iteration has converged: P P^+ P = P.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/head_filter.h"
#include "longbow/ops/iterated_inverse.h"
#include "longbow/ops/shared_heads.h"
#include "longbow/ops/slot_softmax.h"

namespace longbow {
namespace {

enum class Segments { real, zeroed, all, left };
constexpr std::array<std::string_view, 4> names_of(Segments) {
  return {"real", "zeroed", "all", "left"};
}
enum class Start { matrix, batch };
constexpr std::array<std::string_view, 2> names_of(Start) {
  return {"matrix", "batch"};
}

struct Config {
  int64_t landmarks = 64;
  int64_t steps = 6;
  int64_t conv = 33;
  Segments segments = Segments::real;
  Start start = Start::matrix;
  bool shortcut = false;
};
template <class V>
void fields(V& v, Config& c) {
  v("landmarks", c.landmarks, "segments of the sequence, each with its mean", range(1, 65536));
  v("steps", c.steps, "of the iteration for the pseudo-inverse; 20 converge", range(1, 100));
  v("conv", c.conv,
    "length of the filter over the values, odd; 0 = no convolution, and none over a memory",
    range(0, 4095));
  v("segments", c.segments,
    "of the real tokens; or of all places, padded ones with zeros (the authors' code), with their "
    "contents (transformers), or filled up with zeros on the left (nystrom-attention)");
  v("start", c.start,
    "of the iteration, divided by the largest column sum of each matrix, or, as the three "
    "libraries do, of the whole batch: one row then changes another");
  v("shortcut", c.shortcut, "plain softmax where there are as many landmarks as places");
}

class Nystromformer : public AttentionImpl {
 public:
  Nystromformer(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        path_(site.path),
        scale_(std::pow(static_cast<double>(site.shape.head()), -0.25)) {
    const int64_t taps = config.conv;
    if (taps == 0 || site.cross) return;  // no place of a memory belongs to a query
    const double bound = 1 / std::sqrt(static_cast<double>(taps));
    conv_ = parameter("conv", initial_uniform(site, "conv", {heads_, taps}, bound));
  }

  // F2 may be nearly singular, so all of this is float32 at least, except where kernels read the
  // landmarks.
  Tensor attend(const Heads& heads, Context& context) override {
    const bool crossing = context.memory.defined();
    if (const int64_t r = whole_segments(heads, context); r > 0)
      return by_segments(heads, r, context);
    const auto type = wide(heads.q);
    const auto& keep = context.mask.keep;
    const auto& query_keep = crossing ? context.mask.query_keep : keep;
    const bool zeroed = config_.segments != Segments::all;
    const auto clean = [&](const Tensor& rows, const Tensor& real) {
      return zeroed ? without_padding(rows.to(type), real) : rows.to(type);
    };
    const auto q = clean(heads.q, query_keep) * scale_, k = clean(heads.k, keep) * scale_,
               v = clean(heads.v, keep);
    const bool short_cut =
        config_.shortcut && q.size(2) == config_.landmarks && k.size(2) == config_.landmarks;
    const auto y = short_cut ? softmax_read(q, k, v, visible_keys(keep), {.path = path_}, context)
                             : rebuilt(q, k, v, query_keep, keep, context);
    return with_filter(y, v, crossing).to(heads.v.scalar_type());
  }

 private:
  // As many landmarks as divide queries and keys into segments of one length, where nothing is
  // padded; otherwise 0.
  int64_t whole_segments(const Heads& heads, const Context& context) const {
    const auto& mask = context.mask;
    const int64_t n = heads.q.size(2), m = heads.k.size(2), r = std::min({config_.landmarks, n, m});
    const bool fewer = r < config_.landmarks && config_.segments == Segments::left;
    const bool short_cut = config_.shortcut && n == config_.landmarks && m == config_.landmarks;
    if (mask.keep.defined() || mask.query_keep.defined() || context.maps || fewer || short_cut)
      return 0;
    return r > 0 && n % r == 0 && m % r == 0 ? r : 0;
  }

  // The means of whole segments are sums over a view. Where kernels read few keys, queries, keys
  // and values stay as they are; only F2 and its inverse are float32.
  Tensor by_segments(const Heads& heads, int64_t r, Context& context) const {
    const auto& like = heads.q;
    const bool kernels = has_slot_kernel(like, heads.k.narrow(2, 0, r), heads.v.narrow(2, 0, r));
    const auto type = kernels ? like.scalar_type() : wide(like);
    const bool filters = conv_.defined() && !context.memory.defined();
    const auto of = shared_heads({heads.q.to(type), heads.k.to(type), heads.v.to(type)},
                                 {2, 2, filters ? 2 : 1});
    const auto &q = of[0][0], &k = of[1][0], &v = of[2][0];
    const auto means = [&](const Tensor& rows) {  // by tokens, as gradients of the rows lie
      const double each = static_cast<double>(rows.size(2) / r);
      const auto sums = rows.transpose(1, 2).unflatten(1, {r, -1}).sum({2}, false, wide(rows));
      return (sums / each).to(type).transpose(1, 2);
    };
    const double scale = scale_ * scale_;
    const auto q_mean = means(of[0][1]) * scale, k_mean = means(of[1][1]);  // [B, H, R, D]
    const auto widened = [](const Tensor& x) { return x.to(wide(x)); };
    const auto f2 = widened(q_mean).matmul(widened(k_mean).transpose(-2, -1)).softmax(-1);
    const auto read = softmax_read(q_mean, k, v, {}, {}, context);  // F3 V
    const auto values = pseudo_inverse(f2).matmul(widened(read)).to(type);
    const auto y = softmax_read(q, k_mean * scale, values, {}, {}, context);
    return with_filter(y, of[2].back(), !filters).to(heads.v.scalar_type());
  }

  // Queries or keys as the landmarks see them.
  struct Side {
    Tensor rows;    // [B, H, N, D]
    Tensor real;    // [B, N] bool, or undefined
    Tensor means;   // [B, H, R, D]
    Tensor filled;  // [B or 1, R] bool: landmarks that have tokens
  };

  Tensor rebuilt(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& query_keep,
                 const Tensor& keep, Context& context) const {
    const bool left = config_.segments == Segments::left;
    const int64_t r =
        left ? config_.landmarks : std::min({config_.landmarks, q.size(2), k.size(2)});
    // A sequence has no more landmarks than it has queries or keys.
    const auto most = at::minimum(length(q, query_keep), length(k, keep)).clamp_max(r);
    const auto queries = side(q, query_keep, r, left ? at::full_like(most, r) : most),
               keys = side(k, keep, r, left ? at::full_like(most, r) : most);
    Tensor columns, rows, pairs;  // landmarks that are there, of keys and of queries, and both
    if ((keep.defined() || query_keep.defined()) && (left || config_.segments == Segments::real)) {
      columns = visible_keys(keys.filled);                    // [B, 1, 1, R]
      rows = visible_keys(queries.filled).transpose(-2, -1);  // [B, 1, R, 1]
      pairs = rows.logical_and(columns);
    }
    const auto k_mean = keys.means.transpose(-2, -1), k_rows = keys.rows.transpose(-2, -1);
    const auto f1 = masked_softmax(q.matmul(k_mean), columns);      // [B, H, N, R]
    auto f2 = masked_softmax(queries.means.matmul(k_mean), pairs);  // [B, H, R, R]
    auto f3 =
        masked_softmax(queries.means.matmul(k_rows), visible_keys(keys.real));  // [B, H, R, M]
    if (left && rows.defined()) {  // a landmark without tokens reads everything alike
      f2 = at::where(rows, f2, 1.0 / static_cast<double>(f2.size(-1)));
      f3 = at::where(rows, f3, 1.0 / static_cast<double>(f3.size(-1)));
    }
    f3 = f3.narrow(-1, f3.size(-1) - k.size(2), k.size(2));  // values on the left are zero
    const auto inverse = pseudo_inverse(f2);
    if (context.maps) (*context.maps)[path_] = f1.matmul(inverse.matmul(f3)).detach();
    return f1.matmul(inverse.matmul(f3.matmul(v)));
  }

  // Tokens that the segments divide: [B or 1, 1].
  Tensor length(const Tensor& rows, const Tensor& real) const {
    if (config_.segments == Segments::real && real.defined()) return real.sum(1, true);
    return at::full({1, 1}, rows.size(2), rows.options().dtype(at::kLong));
  }

  // Of L tokens and G landmarks, segment g holds floor(g L / G) <= i < floor((g + 1) L / G), so
  // token i is in segment ((i + 1) G - 1) div L. Means run over real tokens, or over the whole
  // segment; a segment without tokens has a mean of zeros.
  Side side(const Tensor& given, const Tensor& keep, int64_t r, const Tensor& most) const {
    const auto segments = config_.segments;
    const bool left = segments == Segments::left;
    const int64_t extra = left ? (r - given.size(2) % r) % r : 0;
    const auto rows = extra ? at::constant_pad_nd(given, {0, 0, extra, 0}) : given;
    const auto real = extra && keep.defined() ? at::constant_pad_nd(keep, {extra, 0}) : keep;
    const auto places = at::arange(1, rows.size(2) + 1, most.options());
    const auto segment = (places * most - 1).floor_divide(length(rows, real).clamp_min(1));
    auto member = segment.unsqueeze(1) == at::arange(r, most.options()).unsqueeze(1);  // [B, R, N]
    if (real.defined() && (left || segments == Segments::real))
      member = member.logical_and(real.unsqueeze(1));
    const auto weights = member.to(rows.scalar_type()), tokens = weights.sum(-1, true);
    constexpr double kLibrary = 1e-8;  // nystrom-attention divides by a little more
    const auto mean = weights / (left && real.defined() ? tokens + kLibrary : tokens.clamp_min(1));
    return {rows, real, split_heads(mean.matmul(merge_heads(rows)), heads_),
            tokens.squeeze(-1) > 0};
  }

  // Started for each matrix by itself from Z = A^T / (largest row sum x largest column sum). The
  // rows sum to 1, so the second is at least 1 and the first is 1, except in a sequence without
  // tokens, where A is zero. A hidden landmark is a row and a column of zeros, and stays one in Z.
  Tensor pseudo_inverse(const Tensor& a) const {
    const auto sums = a.sum(-2, true);  // of the columns
    const auto largest = config_.start == Start::batch ? sums.amax() : sums.amax(-1, true);
    return iterated_inverse(a, a.transpose(-2, -1) / largest.clamp_min(0.5), config_.steps);
  }

  Tensor with_filter(const Tensor& y, const Tensor& v, bool crossing) const {
    return conv_.defined() && !crossing ? y + head_filter(v, conv_) : y;
  }

  Config config_;
  int64_t heads_;
  std::string path_;
  double scale_;
  Tensor conv_;  // [H, taps], or undefined
};

void check(const Config& c, const Site&) {
  require_option(c.conv == 0 || c.conv % 2 == 1, "conv",
                 c10::str("is ", c.conv, ", but a filter has an odd length"),
                 "take an odd number, or 0 for no filter");
}

Promises promises(const Config& c) {
  const bool alone =
      c.segments == Segments::real && c.start == Start::matrix && !c.shortcut;  // each sequence
  const auto padding = c.segments == Segments::all ? Padding::visible
                       : alone                     ? Padding::invisible
                                                   : Padding::contents;
  return {.padding = padding, .cross = true, .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Nystromformer>(site, c);
}

}  // namespace

Mechanism nystromformer_mechanism() {
  return over_heads<Config>(
      {.name = "nystromformer",
       .family = "low rank",
       .paper = "arXiv:2102.03902",
       .cost = "O(N R D + R^3)",
       .summary = "The softmax matrix rebuilt from the means of segments, by Nystrom's method.",
       .exact = "landmarks >= N, 20 steps and no convolution: softmax",
       .variants = {{"few", "{landmarks: 5, conv: 3}"},
                    {"steps", "{landmarks: 4, steps: 8, conv: 0}"},
                    {"zeroed", "{landmarks: 5, conv: 3, segments: zeroed, shortcut: true}"}}},
      promises, make, check);
}

}  // namespace longbow
