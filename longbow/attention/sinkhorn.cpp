// Sparse Sinkhorn attention (Tay et al., 2020, arXiv:2002.11296): a small net scores how well each
// block of b tokens suits as a companion of each other block. The scores R [K, K] become weights S,
// and the tokens of block u read their own block and the companion that S mixes for it:
//   K^s_u = sum_v S_uv K_v,   V^s_u = sum_v S_uv V_v   (slot by slot),
//   o_i = softmax(q_i [K^s_u ; K_u]^T / sqrt D) [V^s_u ; V_u]   for i in block u.
// S is nearly doubly stochastic (a soft permutation that sorts the blocks), a softmax of each row,
// or picks single blocks. Causally block u has companions v < u only, and its row of R knows no
// token after the first of block u.
// One block is all of the sequence: softmax.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "longbow/attention/sinkhorn/sorting.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/softmax/blocks.h"

namespace longbow {
namespace {

enum class Net { attention, learned };
constexpr std::array<std::string_view, 2> names_of(Net) {
  return {"attention", "learned"};
}
enum class Mixing { sinkhorn, softmax, top };
constexpr std::array<std::string_view, 3> names_of(Mixing) {
  return {"sinkhorn", "softmax", "top"};
}

struct Config {
  int64_t block = 64;
  Net net = Net::attention;
  Mixing mixing = Mixing::sinkhorn;
  int64_t iterations = 5, picks = 1, cut = 0, hidden = 0;
  double temperature = 0.75, noise = 1;
  bool own = true, positive = false, official = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("block", c.block, "tokens in a block", range(1, 65536));
  v("net", c.net,
    "scores of blocks: products of their mean queries and keys, or a layer with a hidden relu over "
    "their mean tokens");
  v("mixing", c.mixing,
    "rows and columns normalised in turn; a softmax of each row; or single blocks that weigh as "
    "much as in that softmax");
  v("iterations", c.iterations, "mixing sinkhorn: normalisations of rows and columns",
    range(0, 1000));
  v("picks", c.picks, "mixing top: blocks picked for each block", range(1, 64));
  v("cut", c.cut, "SortCut: all tokens read these first sorted blocks; 0 = each block its own",
    range(0, 4096));
  v("hidden", c.hidden, "net learned: hidden units a head; 0 = the head width", at_least(0));
  v("temperature", c.temperature, "that scores are divided by", range(1e-3, 1000));
  v("noise", c.noise, "Gumbel noise in training is multiplied by this", range(0, 100));
  v("own", c.own, "with cut: tokens read their own block too");
  v("positive", c.positive, "scores are ln(relu(R) + 1e-6), as in a public implementation");
  v("official", c.official,
    "as the released Long Range Arena code: blocks are strided, each reads the sum of all blocks, "
    "and two attentions are added");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Sinkhorn : public AttentionImpl {
 public:
  Sinkhorn(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    if (config.net == Net::attention) return;
    TORCH_CHECK(site.shape.max_length > 0,
                "sinkhorn: net learned needs the longest sequence; set max_length");
    const int64_t hidden = config.hidden > 0 ? config.hidden : site.shape.head();
    const int64_t blocks = (site.shape.max_length + config.block - 1) / config.block;
    summary_ = linear(site, "summary", site.shape.width, heads_ * hidden);
    const double bound = std::sqrt(6 / static_cast<double>(hidden + blocks));
    score_ =
        parameter("score", initial_uniform(site, "score", {heads_, hidden + 1, blocks}, bound));
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (config_.official) return official(heads, context);
    const auto& mask = context.mask;
    const int64_t n = heads.q.size(2), b = std::min(config_.block, n), blocks = (n + b - 1) / b;
    const auto cut = [&](const Tensor& x) {  // [B, H, N, E] -> [B, H, K, b, E]
      const auto rows = without_padding(x, mask.keep);
      return (blocks * b > n ? at::constant_pad_nd(rows, {0, 0, 0, blocks * b - n}) : rows)
          .unflatten(2, {blocks, b});
    };
    const auto q = cut(heads.q), k = cut(heads.k), v = cut(heads.v);
    const auto one = at::ones({mask.keep.defined() ? q.size(0) : 1, 1, n, 1}, q.options());
    const auto real = cut(one).squeeze(-1) > 0;  // [B or 1, 1, K, b]
    const bool all = !mask.keep.defined() && blocks * b == n && !mask.causal;
    const auto sorted = sort(summaries(cut(net_rows(heads)), real, mask.causal), means(k, real),
                             all ? Tensor() : allowed(real, mask.causal), real, path_, context);
    const auto y = context.maps ? read_tiles(q, k, v, real, sorted, context)
                                : read_sorted(q, k, v, real, sorted, context);
    return (y.size(2) == n ? y : y.narrow(2, 0, n)).to(heads.v.scalar_type());
  }

  // All keys and values, the running sum of what the net reads, and its mean at the first token of
  // every block.
  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    const int64_t blocks = (capacity + config_.block - 1) / config_.block;
    open_cache(state, empty, blocks * config_.block);
    const auto rows = net_rows(empty);
    const auto options = rows.options().dtype(wide(rows));
    state.add("sum", {rows.size(0), rows.size(1), 1, rows.size(3)}, options);
    state.add("starts", {rows.size(0), rows.size(1), blocks + 1, rows.size(3)}, options);
  }

  Tensor grow(const Heads& all, State& state, Context& context) override {
    int64_t piece = 0;
    return in_pieces(all, context, config_.block, [&](const Heads& heads, Context& inner) {
      const auto starts = grow_starts(heads, state, inner);
      const auto cached = grow_cache(heads, state, inner);
      return read_cache(heads, cached, starts, path_ + ".piece" + std::to_string(piece++), inner);
    });
  }

 private:
  // What the rows u have for companions: weights S [B, H, R, P, K], or single blocks.
  struct Sorted {
    Tensor weights;  // [B, H, R, P, K] or, of single blocks, [B, H, R, P]
    Tensor index;    // [B, H, R, P] or undefined
    Tensor visible;  // [B, 1 or H, R, P b] bool
    // Blocks [B, H, K, b, E] -> [B, H, R, P b, E].
    Tensor mixed(const Tensor& x) const {
      const int64_t b = x.size(3), e = x.size(4), rows = weights.size(2), picks = weights.size(3);
      if (!index.defined())
        return weights.flatten(2, 3)
            .to(x.scalar_type())
            .matmul(x.flatten(3))
            .view({x.size(0), x.size(1), rows, picks * b, e});
      const auto at = index.flatten(2).unsqueeze(-1).expand({-1, -1, -1, b * e});
      return (x.flatten(3).gather(2, at) * weights.flatten(2).unsqueeze(-1).to(x.scalar_type()))
          .view({x.size(0), x.size(1), rows, picks * b, e});
    }
  };

  // Mixed blocks stand before the others, and each block of queries reads its own ones of both.
  Tensor read_sorted(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& real,
                     const Sorted& sorted, Context& context) const {
    const int64_t blocks = q.size(2), b = q.size(3), picks = sorted.weights.size(3),
                  rows = sorted.weights.size(2), mixed = rows * picks;
    const auto options = real.options().dtype(at::kLong);
    const auto u = at::arange(blocks, options).unsqueeze(1);
    auto columns = at::arange(picks, options) + (rows > 1 ? u * picks : at::zeros_like(u));
    if (config_.own) columns = at::cat({columns, u + mixed}, 1);
    const auto joined = [&](const Tensor& x) {  // [B, H, (R P +) K b, E]
      const auto first = sorted.mixed(x).flatten(2, 3);
      return config_.own ? at::cat({first, x.flatten(2, 3)}, 2) : first;
    };
    auto keep = sorted.visible.flatten(2);  // [B or 1, 1 or H, R P b]
    if (config_.own) {
      const auto own = real.flatten(2);
      const int64_t batch = std::max(keep.size(0), own.size(0));
      keep = at::cat({keep.expand({batch, -1, -1}), own.expand({batch, keep.size(1), -1})}, 2);
    }
    Visibility seen = {.keep = keep};
    if (context.mask.causal) {  // what was mixed is of the past
      const auto t = at::arange(blocks * b, options);
      seen.ahead = 0;
      seen.key_positions = at::cat({at::full({mixed * b}, -1, options), t})
                               .narrow(0, 0, keep.size(2))
                               .view({1, 1, -1});
    }
    return read_blocks(q.flatten(2, 3), joined(k), joined(v),
                       {b, b, columns.view({1, 1, blocks, -1})}, seen, weighing(""), context, {},
                       {}, scale_)
        .mean;
  }

  // The same with all weights, for those who look at them.
  Tensor read_tiles(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& real,
                    const Sorted& sorted, Context& context) const {
    const int64_t blocks = q.size(2), b = q.size(3);
    const auto joined = [&](const Tensor& x) {  // [B, H, K, P b (+ b), E]
      const auto mixed = sorted.mixed(x).expand({-1, -1, blocks, -1, -1});
      return config_.own ? at::cat({mixed, x}, 3) : mixed;
    };
    auto visible = sorted.visible.unsqueeze(3).expand({q.size(0), heads_, blocks, b, -1});
    if (config_.own) {
      const auto pairs = at::ones({b, b}, real.options());
      const auto own = real.unsqueeze(3).logical_and(context.mask.causal ? pairs.tril() : pairs);
      visible = at::cat({visible, own.expand({q.size(0), heads_, blocks, b, b})}, -1);
    }
    return softmax_read(q * scale_, joined(k), joined(v), visible, weighing(""), context)
        .flatten(2, 3);
  }

  // summaries [B, H or 1, R, E] and mean keys [B, H, K, D] of blocks with real tokens [B, 1, K, b].
  Sorted sort(const Tensor& summary, const Tensor& keys, const Tensor& allowed, const Tensor& real,
              const std::string& site, Context& context) const {
    const auto scores = scored(summary, keys, site, context);  // [B, H, R, K]
    const bool top = config_.mixing == Mixing::top;
    if (top) {
      const int64_t count = std::min(config_.cut > 0 ? config_.cut : config_.picks, keys.size(2));
      const auto picked = best_sources(scores, allowed, count, site + ".pick", context);
      const auto slots =
          real.expand({keys.size(0), heads_, -1, -1})
              .gather(2, picked.index.flatten(2).unsqueeze(-1).expand({-1, -1, -1, real.size(3)}))
              .unflatten(2, {scores.size(2), count});
      return {picked.weight, picked.index,
              slots.logical_and(picked.allowed.unsqueeze(-1)).flatten(3)};
    }
    auto weights = config_.mixing == Mixing::softmax
                       ? masked_softmax(scores, allowed)
                       : sinkhorn_balanced(scores, allowed, config_.iterations);
    const auto type = weights.scalar_type();
    auto slots = allowed.defined()  // [B, 1, R, b]
                     ? allowed.to(type).matmul(real.to(type)) > 0
                     : at::ones_like(real);
    if (config_.cut == 0) return {weights.unsqueeze(3), {}, slots};
    const int64_t count = std::min(config_.cut, weights.size(2));
    return {weights.narrow(2, 0, count).unsqueeze(2),
            {},
            slots.narrow(2, 0, count).flatten(2).unsqueeze(2)};
  }

  Tensor scored(const Tensor& summary, const Tensor& keys, const std::string& site,
                Context& context) const {
    auto scores = config_.net == Net::attention ? summary.matmul(keys.transpose(-2, -1)) * scale_
                                                : by_net(summary, keys.size(2));
    if (config_.positive) scores = (scores.relu() + 1e-6).log();
    if (is_training() && config_.noise > 0)
      scores = scores + config_.noise * gumbel(scores, site, context);
    return scores / config_.temperature;
  }

  Tensor by_net(const Tensor& summary, int64_t blocks) const {  // [B, 1, R, C] -> [B, H, R, K]
    TORCH_CHECK(blocks <= score_.size(2), "sinkhorn: ", blocks, " blocks, but max_length has ",
                score_.size(2));
    const auto h = (*summary_)(summary.squeeze(1).to(summary_->weight.scalar_type())).relu();
    return at::constant_pad_nd(split_heads(h, heads_).to(summary.scalar_type()), {0, 1}, 1)
        .matmul(score_.narrow(2, 0, blocks).to(summary.scalar_type()));
  }

  Tensor gumbel(const Tensor& like, const std::string& site, Context& context) const {
    return context.pick(site + ".noise", [&] {
      const auto u = context.random.uniform(like.sizes(), site + ".noise").clamp_min(1e-9);
      return (-(-u.log()).log()).to(like.scalar_type());
    });
  }

  // Mean rows of blocks: of each, or, where one row sorts for all, of the sequence. Causally the
  // mean of all rows up to the first one of the block.
  Tensor summaries(const Tensor& rows, const Tensor& real, bool causal) const {
    if (causal) {
      const auto sums = summed(rows), first = rows.select(3, 0);  // [B, H or 1, K, E]
      const auto before = at::constant_pad_nd(sums, {0, 0, 1, -1}).cumsum(2);
      const auto count =
          at::arange(rows.size(2), real.options().dtype(at::kLong)) * rows.size(3) + 1;
      return (before + first) / count.unsqueeze(-1);
    }
    if (!one_row()) return means(rows, real);
    const auto count = real.sum({2, 3}).clamp_min(1).unsqueeze(-1).unsqueeze(-1);
    return summed(rows).sum(2, true) / count;
  }
  bool one_row() const { return config_.cut > 0 && config_.mixing == Mixing::top; }

  static Tensor means(const Tensor& rows, const Tensor& real) {
    return summed(rows) / real.sum(3).clamp_min(1).unsqueeze(-1);
  }
  // Over the tokens of a block, in float32 at least.
  static Tensor summed(const Tensor& rows) { return rows.sum(3, false, wide(rows)); }

  // Blocks without real tokens neither have companions nor are some. [B or 1, 1, R, K]; sort()
  // takes an undefined tensor for all.
  Tensor allowed(const Tensor& real, bool causal) const {
    const auto some = real.any(3);  // [B or 1, 1, K]
    if (one_row()) return some.unsqueeze(2);
    const auto both = some.unsqueeze(3).logical_and(some.unsqueeze(2));
    return causal ? both.tril(-1) : both;
  }

  // Block j holds the tokens j, j + K, j + 2 K, … Every block reads the sum of all.
  Tensor official(const Heads& heads, Context& context) const {
    const int64_t n = heads.q.size(2), b = std::min(config_.block, n), blocks = (n + b - 1) / b;
    const auto cut = [&](const Tensor& x) {  // [B, H, K, b, E]
      return at::constant_pad_nd(real_rows(x, context.mask.keep), {0, 0, 0, blocks * b - n})
          .unflatten(2, {b, blocks})
          .transpose(2, 3);
    };
    const auto q = cut(heads.q) * scale_, k = cut(heads.k), v = cut(heads.v);
    const auto one = at::ones({q.size(0), 1, n, 1}, q.options());
    const auto seen = cut(one).transpose(-2, -1) > 0;  // [B, 1, K, 1, b]
    const auto own = softmax_read(q, k, v, seen, weighing(".own"), context);
    const auto sum = softmax_read(q, k.sum(2, true), v.sum(2, true), seen.any(2, true),
                                  weighing(".sum"), context);
    return (own + sum).transpose(2, 3).flatten(2, 3).narrow(2, 0, n).to(heads.v.scalar_type());
  }

  // In float32 at least, and zero at padded tokens.
  static Tensor real_rows(const Tensor& x, const Tensor& keep) {
    return without_padding(x.to(wide(x)), keep);
  }

  Tensor net_rows(const Heads& heads) const {
    return config_.net == Net::attention ? heads.q : heads.x.unsqueeze(1);
  }

  Tensor grow_starts(const Heads& heads, State& state, const Context& context) const {
    auto &sum = state.lane.at("sum"), &starts = state.lane.at("starts");
    const auto rows = real_rows(net_rows(heads), context.mask.keep);
    const auto total = sum + rows.cumsum(2);
    const auto place = slots_of(heads, context, -1);  // [B, T]
    const int64_t last = starts.size(2) - 1;
    const auto slot =
        at::where(place.remainder(config_.block) == 0, place.floor_divide(config_.block), last)
            .masked_fill(place < 0, last);
    write_slots(starts, slot, total / (context.positions + 1).unsqueeze(1).unsqueeze(-1));
    sum = total.narrow(2, total.size(2) - 1, 1);
    return starts.narrow(2, 0, last);
  }

  // Each new token sorts the blocks before its own by the row of its block.
  Tensor read_cache(const Heads& heads, const Cached& cached, const Tensor& starts,
                    const std::string& site, Context& context) const {
    const int64_t b = config_.block, blocks = starts.size(2);
    const auto place = context.positions.clamp_max(blocks * b - 1);
    const auto block = place.floor_divide(b);  // [B, T]
    const auto type = starts.scalar_type();
    const auto cut = [&](const Tensor& x) {
      return x.narrow(2, 0, blocks * b).to(type).unflatten(2, {blocks, b});
    };
    const auto rows = [](const Tensor& x, const Tensor& index) {  // [B, H, T, E]
      return x.gather(2, index.unsqueeze(1).unsqueeze(-1).expand({-1, x.size(1), -1, x.size(3)}));
    };
    const auto k = cut(cached.k), v = cut(cached.v);
    const auto full = at::ones({1, 1, blocks, b}, block.options().dtype(at::kBool));
    const auto before =
        (at::arange(blocks, block.options()) < block.unsqueeze(-1)).unsqueeze(1);  // [B, 1, T, K]
    const auto sorted = sort(rows(starts, block), means(k, full), before, full, site, context);
    const auto joined = [&](const Tensor& x) {  // [B, H, T, P b + b, E]
      const auto own = rows(x.flatten(3), block).unflatten(3, {b, x.size(4)});
      return at::cat({sorted.mixed(x), own}, 3);
    };
    const auto own = at::arange(b, block.options()) <= place.remainder(b).unsqueeze(-1);
    const auto shape = [&](const Tensor& x) { return x.expand({-1, heads_, -1, -1}); };
    const auto visible = at::cat({shape(sorted.visible), shape(own.unsqueeze(1))}, -1);
    const auto q = (heads.q.to(type) * scale_).unsqueeze(3);
    return softmax_read(q, joined(k), joined(v), visible.unsqueeze(3), weighing(""), context)
        .squeeze(3)
        .to(heads.v.scalar_type());
  }

  Weighing weighing(const std::string& name) const {
    return {config_.dropout, is_training(), path_ + name};
  }

  Config config_;
  int64_t heads_;
  std::string path_;
  double scale_;
  std::shared_ptr<Linear> summary_;
  Tensor score_;  // [H, hidden + 1, longest / b], the last unit is the bias
};

// Columns of S are normalised over all blocks, later ones too.
Promises promises(const Config& c) {
  const bool causal = c.mixing != Mixing::sinkhorn && c.cut == 0 && !c.official;
  const bool linear = c.official || (c.cut > 0 && c.mixing == Mixing::top);
  return {.padding = c.official ? Padding::contents : Padding::invisible,
          .future = causal ? Future::exact : Future::refused,
          .decode = causal,
          .positional = true,
          .time = linear ? 1.0 : 2.0,
          .memory = linear ? 1.0 : 2.0};
}

void check(const Config& c, const Site&) {
  require_option(c.own || c.cut > 0, "own", "is false, but without cut each block has its own part",
                 "set cut, or leave it out");
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Sinkhorn>(site, c);
}

}  // namespace

Mechanism sinkhorn_mechanism() {
  return over_heads<Config>(
      {.name = "sinkhorn",
       .family = "sorting",
       .paper = "arXiv:2002.11296",
       .cost = "O(N b D + (N / b)^2 b D)",
       .summary = "Tokens attend within their block and to a mixture of blocks that a small net "
                  "sorts for it.",
       .exact = "block >= N: softmax; S the identity: local attention within blocks",
       .variants = {{"learned", "{block: 8, net: learned, iterations: 3}"},
                    {"softmax", "{block: 8, mixing: softmax}"},
                    {"top", "{block: 7, mixing: top, picks: 2, net: learned, hidden: 5}"},
                    {"cut", "{block: 8, mixing: top, cut: 3}"},
                    {"official", "{block: 8, official: true}"}}},
      promises, make, check);
}

}  // namespace longbow
