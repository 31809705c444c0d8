// Random, near and global blocks (Big Bird: Transformers for Longer Sequences, 2020,
// arXiv:2007.14062). The sequence is cut into U blocks of W tokens. Block u reads
//   { 0, u - 1, u, u + 1, U - 1 } and R(u),
// the first and the last block read all. R(u) are `random` other blocks, drawn once for each head
// and saved with the model. Causal: { 0, u - 1, u } and R(u) before those, tokens up to the query.
// Exact when there are at most 5 + 2 random blocks and no causal mask.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/blocks.h"

namespace longbow {
namespace {

enum class Plan { uniform, prefix };
constexpr std::array<std::string_view, 2> names_of(Plan) {
  return {"uniform", "prefix"};
}

struct Config {
  int64_t block = 64, random = 3;
  Plan plan = Plan::uniform;
  bool padded_blocks = false, official = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("block", c.block, "tokens in a block", range(1, 65536));
  v("random", c.random, "random blocks that a block reads besides its neighbours", range(0, 64));
  v("plan", c.plan,
    "where random blocks are drawn from: everywhere, or among the first 1,024 tokens as in the "
    "authors' code");
  v("padded_blocks", c.padded_blocks,
    "the last block of the padded sequence is global, as in other code; else that of the real "
    "tokens");
  v("official", c.official,
    "as the Long Range Arena's code: plan: prefix, padded_blocks, and up to a block of zero keys "
    "behind the sequence");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class BigBird : public AttentionImpl {
 public:
  BigBird(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const int64_t blocks = std::max<int64_t>(1, in_blocks(site.shape.max_length));
    const auto draws = initial_uniform(site, "draws", {site.shape.heads, blocks, config.random}, 1);
    draws_ = exact_buffer("draws", draws.abs());
  }

  Tensor attend(const Heads& given, Context& context) override {
    const int64_t n = given.q.size(2),
                  extra = config_.official ? config_.block - n % config_.block : 0;
    const auto behind = [&](const Tensor& x) {
      return extra > 0 ? at::constant_pad_nd(x, {0, 0, 0, extra}) : x;
    };
    const Heads heads = {behind(given.q), behind(given.k), behind(given.v), given.x, given.source};
    auto keep = context.mask.keep;
    if (keep.defined()) keep = at::constant_pad_nd(keep, {0, extra}, 1);
    const auto y =
        context.mask.causal ? causal(heads, keep, context) : bidirectional(heads, keep, context);
    return (extra > 0 ? y.narrow(2, 0, n) : y).to(given.v.scalar_type());
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_cache(state, empty, capacity);
  }
  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return in_pieces(heads, context, kPiece, [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      const BlockPairs pairs = {1, config_.block,
                                causal_columns(inner.positions.floor_divide(config_.block), inner)};
      const Visibility past = {.ahead = 0, .query_positions = inner.positions.unsqueeze(1)};
      const auto read =
          read_blocks(piece.q * scale_, cached.k, cached.v, pairs, past, weighing(), inner);
      return read.mean.to(piece.v.scalar_type());
    });
  }

 private:
  int64_t in_blocks(int64_t tokens) const { return (tokens + config_.block - 1) / config_.block; }

  Tensor causal(const Heads& heads, const Tensor& keep, const Context& context) const {
    const auto u = at::arange(in_blocks(heads.q.size(2)), heads.q.options().dtype(at::kLong));
    const BlockPairs pairs = {config_.block, config_.block,
                              causal_columns(u.unsqueeze(0), context)};
    return read_blocks(heads.q, heads.k, heads.v, pairs, {.ahead = 0, .keep = kept_keys(keep)},
                       weighing(), context, {}, {}, scale_)
        .mean;
  }

  Tensor bidirectional(const Heads& heads, const Tensor& keep, Context& context) const {
    const int64_t n = heads.q.size(2), w = config_.block;
    const auto options = heads.q.options().dtype(at::kLong);
    const auto u = at::arange(in_blocks(n), options).unsqueeze(0);  // [1, U]
    const auto blocks = keep.defined() && !padded_blocks()          // [B or 1, 1]
                            ? (keep.sum(1, true) + w - 1).floor_divide(w)
                            : at::full({1, 1}, in_blocks(n), options);
    const BlockPairs pairs = {w, w, columns(u, blocks, context)};
    const auto of = heads_for(heads, 2);
    const auto y = read_blocks(of[0].q, of[0].k, of[0].v, pairs, {.keep = kept_keys(keep)},
                               weighing(), context, {}, {}, scale_)
                       .mean;
    return with_global_rows(y, of[1], keep, blocks, context);
  }

  // The first and the last block read all. Rows that are not there, or would be written twice,
  // stand for the first one once more, without its gradient.
  Tensor with_global_rows(const Tensor& y, const Heads& heads, const Tensor& keep,
                          const Tensor& blocks, Context& context) const {
    const int64_t n = heads.q.size(2), w = config_.block;
    const auto offset = at::arange(w, blocks.options()).unsqueeze(0);
    const auto last = ((blocks - 1) * w + offset).masked_fill(blocks <= 1, n);
    const auto rows = at::cat({offset.expand_as(last), last}, 1);  // [B or 1, 2 W]
    const auto there = rows < n;
    const auto index = rows.masked_fill(there.logical_not(), 0)
                           .unsqueeze(1)
                           .unsqueeze(-1)
                           .expand({heads.q.size(0), heads.q.size(1), -1, heads.q.size(3)});
    auto own = weighing();
    own.path += ".global";
    auto read = all_keys(heads.q.gather(2, index), heads, keep, own, context).to(y.scalar_type());
    if (keep.defined() || n % w != 0 || n <= w)
      read = at::where(there.unsqueeze(1).unsqueeze(-1), read, read.narrow(2, 0, 1).detach());
    return y.scatter(2, index, read);
  }
  Tensor all_keys(const Tensor& q, const Heads& heads, const Tensor& keep, const Weighing& own,
                  Context& context) const {
    const bool dropped = own.training && own.dropout > 0;
    if (!keep.defined() && !dropped && !context.maps)
      return softmax_read(q * scale_, heads.k, heads.v, {}, own, context);
    return read_blocks(q, heads.k, heads.v, one_block(q.size(2), heads.k.size(2), q.device()),
                       {.keep = kept_keys(keep)}, own, context, {}, {}, scale_)
        .mean;
  }

  // u [B or 1, U] and the number of blocks [B or 1, 1] -> [B or 1, H, U, 5 + 2 random]. Each block
  // is listed once. Few blocks are listed all.
  Tensor columns(const Tensor& u, const Tensor& blocks, const Context& context) const {
    const int64_t h = draws_.size(0), most = 5 + 2 * config_.random;
    const auto last = blocks - 1;                                        // [B or 1, 1]
    const auto near = u.unsqueeze(-1) + at::arange(-1, 2, u.options());  // [., U, 3]
    const auto listed = near.masked_fill((near <= 0).logical_or(near >= last.unsqueeze(-1)), -1);
    const auto chosen = picked(context, [&] {
      const auto first = (u - 1).clamp_min(1), end = at::minimum(u + 1, last - 1) + 1;
      return drawn(u, first, end, last);
    });
    const int64_t b = std::max(listed.size(0), chosen.size(0));
    const auto each = [&](const Tensor& x) { return x.unsqueeze(1).expand({b, h, u.size(1), -1}); };
    const auto ends = at::stack({at::zeros_like(last), last}, -1).expand({-1, u.size(1), -1});
    const auto some = at::cat({each(ends), each(listed), chosen.expand({b, -1, -1, -1}),
                               at::full({b, h, u.size(1), config_.random}, -1, u.options())},
                              3);
    const auto index = at::arange(most, u.options()).view({1, 1, 1, -1});
    const auto few = blocks.view({-1, 1, 1, 1});
    return at::where(few <= most, at::where(index < few, index, -1), some);
  }

  // u [B or 1, U] -> [B or 1, H, U, 3 + random].
  Tensor causal_columns(const Tensor& u, const Context& context) const {
    const auto near = u.unsqueeze(-1) + at::arange(-1, 1, u.options());
    const auto listed = near.masked_fill(near <= 0, -1);  // [., U, 2]
    const auto chosen = picked(context, [&] { return drawn(u, u - 1, u + 1, u + 1); });
    const auto rows = at::cat({at::zeros_like(u).unsqueeze(-1), listed}, -1).unsqueeze(1);
    return at::cat(
        {rows.expand({-1, chosen.size(1), -1, -1}), chosen.expand({rows.size(0), -1, -1, -1})}, 3);
  }

  Tensor picked(const Context& context, const std::function<Tensor()>& make) const {
    return context.pick(path_ + ".random_blocks", make);
  }

  // `random` different blocks among 1, …, last - 1 without first, …, end - 1, as far as there are
  // so many, else -1: [B or 1, H, U, random]. All arguments are [B or 1, U] or [B or 1, 1].
  Tensor drawn(const Tensor& u, const Tensor& first, const Tensor& end, const Tensor& last) const {
    const auto draws = draws_.to(at::kDouble)
                           .index_select(1, u.flatten().remainder(draws_.size(1)))
                           .unflatten(1, {u.size(0), u.size(1)})
                           .transpose(0, 1);  // [B or 1, H, U, random]
    auto stop = last;
    if (config_.plan == Plan::prefix || config_.official)
      stop = stop.clamp_max(std::max<int64_t>(in_blocks(kPrefix), 2));
    const auto from = at::minimum(first.clamp_min(1), stop).unsqueeze(1);
    const auto skipped = (at::minimum(end, stop).unsqueeze(1) - from).clamp_min(0);
    const auto count = (stop.unsqueeze(1) - 1 - skipped).clamp_min(0);  // [., 1, U]
    std::vector<Tensor> picks;
    for (int64_t k = 0; k < config_.random; ++k) {
      const auto left = count - k;
      // A draw that was rounded may be 1.
      auto pick = at::minimum((draws.select(3, k) * left).floor().to(at::kLong), left - 1);
      pick = pick.clamp_min(0);
      if (k > 0) {  // the pick-th of those that are left
        const auto before = std::get<0>(at::stack(picks, -1).sort(-1));
        for (int64_t i = 0; i < k; ++i) pick = pick + (pick >= before.select(-1, i)).to(at::kLong);
      }
      picks.push_back(at::where(left > 0, pick, Tensor(at::full_like(pick, kNone))));
    }
    if (picks.empty()) return at::zeros_like(draws, at::kLong);
    const auto place = at::stack(picks, -1) + 1;  // counted without what is skipped
    const auto block = place + (place >= from.unsqueeze(-1)).to(at::kLong) * skipped.unsqueeze(-1);
    return block.masked_fill(place > kNone, -1);
  }

  bool padded_blocks() const { return config_.padded_blocks || config_.official; }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  static constexpr int64_t kPiece = 64, kPrefix = 1024, kNone = int64_t{1} << 40;
  Config config_;
  std::string path_;
  double scale_;
  Tensor draws_;  // [H, blocks, random] from 0 to 1
};

Promises promises(const Config& c) {
  return {.padding = c.padded_blocks || c.official ? Padding::visible : Padding::invisible,
          .future = Future::exact,
          .decode = !c.official,
          .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<BigBird>(site, c);
}

}  // namespace

Mechanism bigbird_mechanism() {
  return over_heads<Config>(
      {.name = "bigbird",
       .family = "sparse",
       .paper = "arXiv:2007.14062",
       .cost = "O(N W (5 + R) D)",
       .summary = "Blocks attend to their neighbours, to random blocks and to the first and last.",
       .exact = "at most 5 + 2 random blocks, not causal: softmax",
       .variants = {{"small", "{block: 4, random: 2}"},
                    {"prefix", "{block: 3, random: 1, plan: prefix}"},
                    {"no_random", "{block: 4, random: 0}"},
                    {"official", "{block: 4, random: 2, official: true}"}}},
      promises, make);
}

}  // namespace longbow
