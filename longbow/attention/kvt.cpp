// KVT (Wang et al., 2021, arXiv:2106.00515): softmax attention over the k nearest keys of each
// query, those with the largest scores among the visible ones:
//   o_i = sum_(j in T_i) softmax_(j in T_i)(q_i . k_j / sqrt D) v_j,   |T_i| = min(k, visible
//   keys).
// The choice T_i is a constant to the gradient. Exact when k >= M; k = 1 reads the best key alone.
#include <ATen/ATen.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

enum class Ties { first, all };
constexpr std::array<std::string_view, 2> names_of(Ties) {
  return {"first", "all"};
}

struct Config {
  int64_t k = 100;
  double k_ratio = 0;
  Ties ties = Ties::first;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("k", c.k, "keys that a query keeps", at_least(1));
  v("k_ratio", c.k_ratio, "above 0: keep this part of the visible keys, rounded up, in place of k",
    range(0, 1));
  v("ties", c.ties,
    "scores equal to the k-th largest: keep the first keys up to k, or all of them");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Kvt : public AttentionImpl {
 public:
  Kvt(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const auto visible =
        visible_pairs(context.mask, heads.q.size(2), heads.k.size(2), heads.q.device());
    const auto nearest =
        context.pick(path_ + ".nearest", [&] { return choose(heads.q, heads.k, visible); });
    return read(heads.q, heads.k, heads.v, nearest, context);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    constexpr int64_t kPiece = 256;  // a long extension stores 256 rows of scores at a time
    return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      return read(piece.q, cached.k, cached.v, choose(piece.q, cached.k, cached.visible), inner);
    });
  }

 private:
  // [B, H, N, M] bool: the keys in T_i. Chosen in float32 at least, because half types make ties.
  Tensor choose(const Tensor& q, const Tensor& k, const Tensor& visible) const {
    const at::NoGradGuard constant;
    auto scores = q.to(wide(q)).matmul(k.to(wide(k)).transpose(-2, -1));
    if (visible.defined())
      scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
    const auto room = budget(scores, visible);  // [B, H, N, 1]
    const auto largest = std::get<0>(scores.topk(most(k.size(2))));
    const auto least = largest.gather(-1, room - 1);  // the k-th score; -inf when fewer are visible
    const auto within = [&](const Tensor& kept) {
      return visible.defined() ? kept.logical_and(visible) : kept;
    };
    if (config_.ties == Ties::all) return within(scores >= least);
    const auto above = scores > least, equal = scores == least;
    const auto left = room - above.sum(-1, true);
    return within(above.logical_or(equal.logical_and(equal.cumsum(-1, at::kInt) <= left)));
  }

  // Keys that each query may keep, from 1 to most(M). [B, H, N, 1] int64
  Tensor budget(const Tensor& scores, const Tensor& visible) const {
    const int64_t keys = scores.size(-1);
    const auto options = scores.options().dtype(at::kLong);
    auto rows = scores.sizes().vec();
    rows.back() = 1;
    if (config_.k_ratio == 0 || !visible.defined()) return at::full(rows, most(keys), options);
    const auto part = visible.sum(-1, true).to(at::kDouble) * config_.k_ratio;
    return (part - kRounding).ceil().to(at::kLong).clamp(1, most(keys)).expand(rows);
  }

  int64_t most(int64_t keys) const {
    if (config_.k_ratio == 0) return std::min(config_.k, keys);
    const double part = static_cast<double>(keys) * config_.k_ratio;
    return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(part - kRounding)), 1, keys);
  }

  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& nearest,
              Context& context) {
    return softmax_read(q * scale_, k, v, nearest, {config_.dropout, is_training(), path_},
                        context);
  }

  static constexpr double kRounding = 1e-9;  // 0.1 x 30 is 3, not a little more

  Config config_;
  std::string path_;
  double scale_;
};

Promises promises(const Config&) {
  return {.future = Future::exact, .cross = true, .decode = true, .time = 2, .memory = 2};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Kvt>(site, c);
}

}  // namespace

Mechanism kvt_mechanism() {
  return over_heads<Config>(
      {.name = "kvt",
       .family = "sparse",
       .paper = "arXiv:2106.00515",
       .cost = "O(N M D)",
       .summary = "Every query reads the k keys with the largest scores and no other.",
       .exact = "k >= M: softmax; k = 1: the value of the best key",
       // With few keys of many a half type chooses others; the test has the laws for that.
       .variants = {{"ratio", "{k_ratio: 0.8}"}, {"ties", "{k_ratio: 0.75, ties: all}"}}},
      promises, make);
}

}  // namespace longbow
