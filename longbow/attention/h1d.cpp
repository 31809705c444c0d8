// H-Transformer-1D (Zhu and Soricut, 2021, arXiv:2107.11906): near keys are read one by one, far
// ones as the means of clusters that double in size with the distance. At level l a cluster holds
// 2^l tokens and a block holds W clusters. A pair belongs to the least level at which its blocks
// are the same or neighbours,
//   lev(i, j) = min l: |i div (W 2^l) - j div (W 2^l)| <= 1,
//   o_i = sum_j w_ij v_j / sum_j w_ij,   w_ij = exp(q^(lev)_i . k^(lev)_j / sqrt D),
// where k^(l) is the mean of the real tokens in the cluster; q^(l) too, or its first token when
// causal, because a mean would see the future. Every pair is counted once: at l >= 1 a block reads
// its neighbours without the quadrant that level l - 1 has read. Exact when N <= 2 W.
#include <ATen/ATen.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

struct Config {
  int64_t block = 16;
};
template <class V>
void fields(V& v, Config& c) {
  v("block", c.block, "W, clusters in a block of each level; even", range(2, 65536));
}

// Sums over the real tokens of each cluster of a level.
struct Level {
  Tensor q, k, v;  // [B, H, n, D]; q is the first token's when causal
  Tensor count;    // [B, 1, n, 1]
};

// [B, H, n, D] -> [B, H, ceil(n / 2), D], sums of pairs.
Tensor paired(const Tensor& x) {
  const auto even = x.size(2) % 2 == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, 1});
  return even.unflatten(2, {-1, 2}).sum(3);
}

// What a row has read so far: the largest score, and sums of weights relative to it.
struct Read {
  Tensor top, total, sum;  // [B, H, n, 1], [B, H, n, 1], [B, H, n, D]

  // For each of the n rows one level below.
  Read spread(int64_t n) const {
    const auto twice = [&](const Tensor& x) {
      return x.unsqueeze(3).expand({-1, -1, -1, 2, -1}).flatten(2, 3).narrow(2, 0, n);
    };
    return {twice(top), twice(total), twice(sum)};
  }
  Read operator+(const Read& other) const {
    const auto most = at::maximum(top, other.top);
    const auto a = (top - most).exp(), b = (other.top - most).exp();
    return {most, a * total + b * other.total, a * sum + b * other.sum};
  }
};

class H1d : public AttentionImpl {
 public:
  H1d(const Site& site, const Config& config)
      : block_(config.block),
        half_(config.block / 2),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    TORCH_CHECK(block_ % 2 == 0, "h1d: block is ", block_,
                ", but halves of it are read: needs an even number");
  }

  // From the coarsest level down, so that what is kept for all levels is linear in N.
  Tensor attend(const Heads& heads, Context& context) override {
    const bool causal = context.mask.causal;
    const auto levels = pyramid(heads, context.mask);
    Read read = read_level(levels.back(), static_cast<int64_t>(levels.size()) - 1, causal);
    for (int64_t l = static_cast<int64_t>(levels.size()) - 2; l >= 0; --l) {
      const auto& level = levels[static_cast<size_t>(l)];
      read = read.spread(level.k.size(2)) + read_level(level, l, causal);
    }
    return (read.sum / read.total.clamp_min(1)).to(heads.v.scalar_type());  // >= 1 if a key is seen
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
    state.add("queries", state.lane.at("keys").sizes(), empty.q.options());
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    constexpr int64_t kPiece = 64;  // tokens whose keys are gathered at a time
    return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
      return grow_piece(piece, state, inner);
    });
  }

 private:
  // Levels up to the one that has two blocks or fewer, where all are neighbours.
  int64_t levels_of(int64_t tokens) const {
    int64_t levels = 1;
    for (int64_t n = tokens; n > 2 * block_; n = (n + 1) / 2) ++levels;
    return levels;
  }

  std::vector<Level> pyramid(const Heads& heads, const Mask& mask) const {
    const auto type = wide(heads.q);
    const int64_t b = heads.k.size(0), n = heads.k.size(2);
    const auto real = mask.keep.defined() ? mask.keep.to(type).view({b, 1, n, 1})
                                          : at::ones({1, 1, n, 1}, heads.k.options().dtype(type));
    const auto of_real = [&](const Tensor& x) { return x.to(type) * real; };
    std::vector<Level> levels = {
        {of_real(heads.q) * scale_, of_real(heads.k), of_real(heads.v), real}};
    for (int64_t l = 1; l < levels_of(n); ++l) {
      const auto& fine = levels.back();
      levels.push_back({mask.causal ? fine.q.slice(2, 0, std::nullopt, 2) : paired(fine.q),
                        paired(fine.k), paired(fine.v), paired(fine.count)});
    }
    return levels;
  }

  // [B, H, n, D] -> [B, H, K, W, D], filled up with zeros.
  Tensor blocked(const Tensor& x) const {
    const int64_t missing = (block_ - x.size(2) % block_) % block_;
    return at::constant_pad_nd(x, {0, 0, 0, missing}).unflatten(2, {-1, block_});
  }

  // For each block the blocks at the given distances: [B, H, K, distances W, D].
  Tensor around(const Tensor& x, const std::vector<int64_t>& distances) const {
    const auto blocks = blocked(x);
    const auto padded = at::constant_pad_nd(blocks, {0, 0, 0, 0, 1, 1});
    std::vector<Tensor> shifted;
    for (const int64_t d : distances) shifted.push_back(padded.narrow(2, 1 + d, blocks.size(2)));
    return at::cat(shifted, 3);
  }

  // [W, distances W] bool: what the queries of a block read at this level.
  Tensor pattern(const std::vector<int64_t>& distances, bool coarse, bool causal,
                 const at::TensorOptions& options) const {
    const auto index = at::arange(block_, options.dtype(at::kLong));
    std::vector<Tensor> places;
    for (const int64_t d : distances) places.push_back(index + d * block_);
    const auto i = index.unsqueeze(1), j = at::cat(places).unsqueeze(0);
    if (causal && !coarse) return j <= i;
    // In halves of a block, level l - 1 has read what is at most one of its blocks away.
    const auto halves = (i.floor_divide(half_) - j.floor_divide(half_)).abs();
    return coarse ? halves > 1 : halves >= 0;
  }

  // A cluster weighs as much as it has tokens: exp(a) count = exp(a + ln count).
  Read read_level(const Level& level, int64_t l, bool causal) const {
    std::vector<int64_t> distances = {-1};
    if (l == 0) distances.push_back(0);
    if (!causal) distances.push_back(1);
    const auto count = around(level.count, distances).transpose(-2, -1);  // [B, 1, K, 1, S]
    const auto size = level.count.clamp_min(1);
    const auto q = blocked(causal ? level.q : level.q / size);  // [B, H, K, W, D]
    const auto k = around(level.k / size, distances), v = around(level.v / size, distances);
    const auto hidden =
        pattern(distances, l > 0, causal, q.options()).logical_and(count > 0).logical_not();
    const auto scores = (q.matmul(k.transpose(-2, -1)) + count.clamp_min(1).log())
                            .masked_fill(hidden, -std::numeric_limits<double>::infinity());
    // The least finite number where nothing is visible, so that exp(-inf - top) = 0. The result
    // does not depend on top, hence it has no gradient.
    const double least = q.scalar_type() == at::kDouble ? std::numeric_limits<double>::lowest()
                                                        : std::numeric_limits<float>::lowest();
    const auto top = scores.detach().amax(-1, true).clamp_min(least);
    const auto weights = (scores - top).exp();  // [B, H, K, W, S]
    const auto rows = [&](const Tensor& x) {
      return x.flatten(2, 3).narrow(2, 0, level.k.size(2));
    };
    return {rows(top), rows(weights.sum(-1, true)), rows(weights.matmul(v))};
  }

  // The blocks before a token's own are full, so their clusters are plain means of 2^l tokens.
  Tensor grow_piece(const Heads& heads, State& state, const Context& context) const {
    const auto cached = grow_cache(heads, state, context);
    auto& queries = state.lane.at("queries");
    const int64_t capacity = queries.size(2) - 1, tokens = heads.q.size(2);
    write_slots(queries, slots_of(heads, context, capacity), heads.q);
    const auto type = wide(heads.q);
    auto k = cached.k.narrow(2, 0, capacity).to(type), v = cached.v.narrow(2, 0, capacity).to(type);
    const auto i = context.positions.expand({heads.q.size(0), tokens});  // [B, T]
    // Rows of x [B, H, n, D] at index [B, T, S]: [B, H, T, S, D].
    const auto rows_at = [&](const Tensor& x, const Tensor& index) {
      const auto flat = index.clamp(0, x.size(2) - 1).flatten(1).unsqueeze(1).unsqueeze(-1);
      return x.gather(2, flat.expand({-1, x.size(1), -1, x.size(3)}))
          .unflatten(2, {tokens, index.size(2)});
    };
    std::vector<Tensor> scores, values, visible;
    for (int64_t l = 0, size = 1; l < levels_of(capacity); ++l, size *= 2) {
      if (l > 0) k = paired(k) / 2, v = paired(v) / 2;
      const auto own = i.floor_divide(size).unsqueeze(-1);  // [B, T, 1], the token's cluster
      const auto left = own.floor_divide(block_) * block_ - block_;
      const auto j = left + at::arange(l == 0 ? 2 * block_ : block_, left.options());  // [B, T, S]
      const auto halves = own.floor_divide(half_) - j.floor_divide(half_);
      visible.push_back((j >= 0).logical_and(l == 0 ? j <= own : halves > 1));
      const auto q = rows_at(queries, own * size).to(type) * scale_;  // [B, H, T, 1, D]
      scores.push_back(q.matmul(rows_at(k, j).transpose(-2, -1)) +
                       std::log(static_cast<double>(size)));
      values.push_back(rows_at(v, j));
    }
    const auto seen = at::cat(visible, -1).unsqueeze(1).unsqueeze(-2);  // [B, 1, T, 1, S]
    const auto weights = masked_softmax(at::cat(scores, -1), seen);
    return weights.matmul(at::cat(values, -2)).squeeze(-2).to(heads.v.scalar_type());
  }

  int64_t block_, half_;
  double scale_;
};

Promises promises(const Config&) {
  return {.future = Future::exact, .decode = true, .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<H1d>(site, c);
}

}  // namespace

Mechanism h1d_mechanism() {
  return over_heads<Config>(
      {.name = "h1d",
       .family = "hierarchical",
       .paper = "arXiv:2107.11906",
       .cost = "O(N W D)",
       .summary =
           "Near keys one by one, far keys as means of clusters that grow with the distance.",
       .exact = "N <= 2 W, or tokens that are equal within every cluster",
       .variants = {{"small", "{block: 2}"}, {"narrow", "{block: 6}"}}},
      promises, make);
}

}  // namespace longbow
