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

#include "longbow/attention/h1d/clusters.h"
#include "longbow/attention/h1d/sibling_blocks.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/ops/join_softmax.h"

namespace longbow {
namespace {

enum class Coverage { full, siblings };
constexpr std::array<std::string_view, 2> names_of(Coverage) {
  return {"full", "siblings"};
}

struct Config {
  int64_t block = 16;
  bool relative_bias = false;
  Coverage coverage = Coverage::full;
  double epsilon = 1e-8;
};
template <class V>
void fields(V& v, Config& c) {
  v("block", c.block, "W, clusters in a block of each level; even", range(2, 65536));
  v("relative_bias", c.relative_bias,
    "a learned number for each level, head and distance in clusters is added to the scores");
  v("coverage", c.coverage,
    "every pair of tokens once; or siblings: what the library h-transformer-1d 0.1.9 reads");
  v("epsilon", c.epsilon, "siblings: added to the denominator", at_least(0));
}

class H1d : public AttentionImpl {
 public:
  H1d(const Site& site, const Config& config)
      : config_(config),
        block_(config.block),
        half_(config.block / 2),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    if (!config.relative_bias) return;
    TORCH_CHECK(site.shape.max_length > 0, "h1d: relative_bias needs the model's max_length");
    bias_ = parameter(
        "bias", at::zeros({levels_of(site.shape.max_length), site.shape.heads, 4 * block_ - 1}),
        {.decay = false});
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (config_.coverage == Coverage::siblings)
      return sibling_attention({heads.q * scale_, heads.k, heads.v, heads.x, heads.source},
                               context.mask, block_, config_.epsilon);
    const int64_t levels = checked_levels(heads.k.size(2));
    const auto by_reader = heads_for(heads, levels > 1 ? 2 : 1);
    auto read = read_tokens(by_reader[0], context);
    if (levels > 1) read = joined(read, by_reader[1], levels, context);
    return read.mean.to(heads.v.scalar_type());
  }

  // A token reads back to the block before its own, and a piece of W tokens is added at a time.
  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_clusters(state, empty, checked_levels(capacity), 3 * block_);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return in_pieces(heads, context, block_, [&](const Heads& piece, Context& inner) {
      return read_clusters(grow_clusters(piece, state, inner)).to(piece.v.scalar_type());
    });
  }

 private:
  // Levels up to the one that has two blocks or fewer, where all are neighbours.
  int64_t levels_of(int64_t tokens) const {
    int64_t levels = 1;
    for (int64_t n = tokens; n > 2 * block_; n = (n + 1) / 2) ++levels;
    return levels;
  }

  int64_t checked_levels(int64_t tokens) const {
    const int64_t levels = levels_of(tokens);
    TORCH_CHECK(!bias_.defined() || levels <= bias_.size(0), "h1d: ", tokens, " tokens have ",
                levels, " levels, but the relative bias has ", bias_.size(0));
    return levels;
  }

  // Level 0.
  PartialSoftmax read_tokens(const Heads& heads, const Context& context) const {
    const bool causal = context.mask.causal;
    const auto pairs = near_blocks(heads.k.size(2), block_, 1, causal ? 0 : 1, heads.k.device());
    return read_blocks(
        heads.q, heads.k, heads.v, pairs,
        {.ahead = causal ? 0 : Visibility::kAll, .keep = kept_keys(context.mask.keep)}, {}, context,
        bias_of(0, pairs.columns.size(2), pairs), {}, scale_);
  }

  // Levels from the coarsest one down: what a cluster has read is what each of its two halves has.
  PartialSoftmax joined(const PartialSoftmax& tokens, const Heads& heads, int64_t levels,
                        const Context& context) const {
    const auto coarse = coarse_levels(heads, context.mask, levels, block_);
    const auto read = read_levels(coarse, levels, context);
    const auto means = read.mean.split_with_sizes(coarse.rows, 2),
               sums = read.log_sum.split_with_sizes(coarse.rows, 2);
    SoftmaxPart below = {means.back(), sums.back()};
    for (size_t l = means.size() - 1; l > 0; --l)
      below = join_softmax({means[l - 1], sums[l - 1]}, below, 2);
    const auto all = join_softmax({tokens.mean, tokens.log_sum}, below, 2);
    return {all.out, all.log_sum};
  }

  // All levels from 1 on at once: the blocks of one level are no neighbours of those of another. A
  // cluster weighs as much as it has tokens: exp(a) count = exp(a + ln count). In halves of a
  // block, level l - 1 has read what is at most one of its blocks away.
  PartialSoftmax read_levels(const CoarseLevels& coarse, int64_t levels,
                             const Context& context) const {
    const int64_t rows = coarse.k.size(2);
    const auto pairs = near_blocks(rows, block_, 1, context.mask.causal ? 0 : 1, coarse.k.device());
    const auto half =
        at::arange(rows, pairs.columns.options()).floor_divide(half_).view({1, 1, -1});
    std::vector<Tensor> biases;
    for (int64_t l = 1; bias_.defined() && l < levels; ++l)
      biases.push_back(bias_of(l, coarse.rows[static_cast<size_t>(l - 1)] / block_, pairs));
    return read_blocks(coarse.q, coarse.k, coarse.v, pairs,
                       {.apart = 2,
                        .keep = kept_keys(coarse.count > 0),
                        .query_positions = half,
                        .key_positions = half,
                        .key_bias = coarse.count.clamp_min(1).log().unsqueeze(1)},
                       {}, context, biases.empty() ? Tensor() : at::cat(biases, 2), {}, scale_);
  }

  // Of a level with so many blocks, [1, H, blocks, W, S W]; undefined where there is none.
  Tensor bias_of(int64_t l, int64_t blocks, const BlockPairs& pairs) const {
    if (!bias_.defined()) return {};
    const int64_t listed = pairs.columns.size(3), before = pairs.columns.size(2) > 1 ? block_ : 0;
    const auto i = at::arange(block_, pairs.columns.options()).unsqueeze(1),
               j = at::arange(listed * block_, pairs.columns.options()).unsqueeze(0) - before;
    const auto one = bias_at(bias_.narrow(0, l, 1), (j - i).unsqueeze(0).unsqueeze(0));
    return one.expand({-1, -1, blocks, -1, -1});
  }

  // In halves of a block, level l - 1 has read what is at most one of its blocks away.
  Tensor unread(const Tensor& i, const Tensor& j) const {
    return (i.floor_divide(half_) - j.floor_divide(half_)).abs() > 1;
  }

  // The blocks before a token's own are complete, so their clusters have 2^l tokens.
  Tensor read_clusters(const Clusters& clusters) const {
    const int64_t levels = clusters.own.size(1);
    const auto i = clusters.own.unsqueeze(-1), j = clusters.index.unsqueeze(-2);
    const auto l = at::arange(levels, i.options()).view({levels, 1, 1});
    const auto visible =
        (j >= 0)
            .logical_and(i.floor_divide(block_) - j.floor_divide(block_) <= 1)
            .logical_and(at::where(l == 0, j <= i, unread(i, j).logical_and(j < i)));
    auto scores = (clusters.q * scale_).matmul(clusters.k.transpose(-2, -1)) +
                  l.to(clusters.k.scalar_type()) * std::log(2.0);
    if (bias_.defined())
      scores = scores + bias_at(bias_.narrow(0, 0, levels), j - i);  // [B, H, L, T, S]
    const auto flat = [](const Tensor& x) { return x.transpose(2, 3).flatten(3); };
    return masked_softmax(flat(scores), flat(visible.unsqueeze(1)))
        .matmul(clusters.v.flatten(2, 3));
  }

  // table [L, H, 4 W - 1], distance [B, L, T, S] in clusters -> [B, H, L, T, S].
  Tensor bias_at(const Tensor& table, const Tensor& distance) const {
    const auto index = (distance + (2 * block_ - 1)).clamp(0, 4 * block_ - 2).flatten(2);
    return table.unsqueeze(0)
        .expand({distance.size(0), -1, -1, -1})
        .gather(3, index.unsqueeze(2).expand({-1, -1, table.size(1), -1}))
        .unflatten(3, {distance.size(2), distance.size(3)})
        .transpose(1, 2);
  }

  Config config_;
  int64_t block_, half_;
  double scale_;
  Tensor bias_;  // [levels, H, 4 W - 1]
};

void check(const Config& c, const Site&) {
  const bool siblings = c.coverage == Coverage::siblings;
  const bool power_of_two = (c.block & (c.block - 1)) == 0;
  require_option(c.block % 2 == 0, "block", c10::str("is ", c.block, ", but halves of it are read"),
                 "take an even number");
  require_option(!siblings || power_of_two, "block",
                 c10::str("is ", c.block, ", but coverage: siblings needs a power of two"),
                 "take 2, 4, 8 or more");
  require_option(!siblings || !c.relative_bias, "relative_bias",
                 "does not go with coverage: siblings", "leave one of them out");
}

Promises promises(const Config& c) {
  const bool full = c.coverage == Coverage::full;
  return {.padding = full ? Padding::invisible : Padding::contents,
          .future = Future::exact,
          .decode = full,
          .positional = true,
          .launches = Launches::logarithmic,
          .causal_launches = Launches::logarithmic};
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
       .variants = {{"small", "{block: 2}"},
                    {"narrow", "{block: 6}"},
                    {"bias", "{block: 4, relative_bias: true}"},
                    {"siblings", "{block: 4, coverage: siblings}"}}},
      promises, make, check);
}

}  // namespace longbow
