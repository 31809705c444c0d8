// Attention among tokens that a hash puts together (Reformer: The Efficient Transformer, 2020,
// arXiv:2001.04451). Queries are keys: s = x W. In each round
//   bucket(t) = argmax over [s_t R; -s_t R],   R random [D, buckets / 2],
// tokens are sorted by (bucket, t) and cut into chunks of W; a token reads its chunk and those
// before it. Over all rounds together
//   y_i = softmax_j(s_i . s_j / |s_j|) v_j,
// where i reads itself only if it sees nothing else. A key that several rounds find counts as
// often, unless `deduplicate`. Exact, up to its shared queries and keys, when W >= N.
#include <ATen/ATen.h>

#include <bit>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/order.h"
#include "longbow/ops/bucket_orders.h"
#include "longbow/ops/gated_norm.h"
#include "longbow/ops/order_softmax.h"
#include "longbow/ops/turned_buckets.h"

namespace longbow {
namespace {

struct Config {
  int64_t chunk = 64, rounds = 4, back = 1, ahead = 0;
  std::vector<int64_t> buckets = {};
  bool scaled = false, same_bucket = false, deduplicate = false, redraw = true, ring = false,
       official = false;
  double epsilon = 1e-6, dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("chunk", c.chunk, "tokens in a chunk", range(1, 65536));
  v("rounds", c.rounds, "how often tokens are hashed", range(1, 64));
  v("back", c.back, "earlier chunks that a chunk reads besides its own", range(0, 64));
  v("ahead", c.ahead, "later chunks that a chunk reads", range(0, 64));
  v("buckets", c.buckets,
    "of a round, even; several numbers are multiplied, each with a hash of its own; empty = twice "
    "the chunks of the longest sequence, rounded up to a power of two",
    range(2, 65536));
  v("scaled", c.scaled, "divide scores by sqrt D, as some implementations do");
  v("same_bucket", c.same_bucket, "read tokens of the own bucket only");
  v("deduplicate", c.deduplicate, "a key that several rounds find counts once");
  v("redraw", c.redraw, "hash anew at each training step; else always as in evaluation");
  v("ring", c.ring,
    "as in other code: rounds stand one after another, and the first chunk of each reads the last "
    "one before it, around the end");
  v("official", c.official,
    "as the Long Range Arena's code: one round, ten chunks and buckets, keys not normalised, "
    "scores "
    "times sqrt D, nothing masked, heads mixed up, no output projection");
  v("epsilon", c.epsilon, "added to the mean square of a key before its root is taken", above(0));
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

constexpr int64_t kOfficialChunks = 10;

// Numbers of buckets that are hashed one by one and multiplied.
std::vector<int64_t> bucket_factors(const Config& c, const Site& site) {
  if (c.official) return {kOfficialChunks};
  if (!c.buckets.empty()) return c.buckets;
  const int64_t chunks = (std::max<int64_t>(site.shape.max_length, 1) + c.chunk - 1) / c.chunk;
  const auto all = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * chunks)));
  constexpr int64_t kMost = 16;  // of one hash
  if (all <= kMost) return {all};
  const auto first = int64_t{1} << ((std::bit_width(static_cast<uint64_t>(all)) - 1) / 2);
  return {first, all / first};
}

class Reformer : public ProjectedMixer {
 public:
  Reformer(const Site& site, const Config& config)
      : ProjectedMixer(site, {.projected = !config.official}, Keys::queries),
        config_(config),
        path_(site.path),
        width_(site.shape.head()),
        factors_(bucket_factors(config, site)) {
    if (config.official) config_.rounds = 1;
    rotations_ =
        register_buffer("rotations", initial_normal(site, "rotations", rotation_shape(), 1));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto rows = project_together(x, {query_.get(), value_.get()});
    const auto s = rotated(split_heads(rows[0], heads_), context);
    const auto v = split_heads(rows[1], heads_);
    const auto buckets = context.pick(path_ + ".buckets", [&] { return hashed(s, context); });
    const auto y = read(s, v, buckets, context);
    if (!config_.official) return merged(y);
    return y.contiguous().view({x.size(0), x.size(1), -1});  // heads are not put beside each other
  }

 private:
  std::vector<int64_t> rotation_shape() const {
    int64_t columns = 0;
    for (const int64_t factor : factors_) columns += factor / 2;
    return {heads_, config_.rounds, width_, columns};
  }

  // [B, H, rounds, N]; padded tokens are in a bucket of their own behind the others.
  Tensor hashed(const Tensor& s, const Context& context) const {
    const at::NoGradGuard no_grad;
    const auto rotations = config_.redraw && is_training() && !config_.official
                               ? context.random.normal(rotation_shape(), path_ + ".rotations")
                               : rotations_;
    // One product for a head: the rows of all sequences follow each other, and so do the rounds of
    // its directions.
    const auto rows = s.detach().to(wide(s)).transpose(0, 1).flatten(1, 2);  // [H, B N, D]
    const auto directions = rotations.to(wide(s)).transpose(1, 2).flatten(2);
    const auto turned = rows.bmm(directions)
                            .view({heads_, s.size(0), s.size(2), config_.rounds, -1})
                            .permute({1, 0, 3, 2, 4});  // [B, H, rounds, N, C]
    const auto bucket = turned_buckets(turned, factors_);
    int64_t all = 1;
    for (const int64_t factor : factors_) all *= factor;
    const auto& keep = context.mask.keep;
    if (!keep.defined() || config_.official) return bucket;
    return bucket.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(1), all);
  }

  Tensor read(const Tensor& s, const Tensor& v, const Tensor& buckets,
              const Context& context) const {
    const int64_t n = s.size(2), rounds = buckets.size(2);
    const int64_t chunk =
        config_.official ? (n + kOfficialChunks - 1) / kOfficialChunks : std::min(config_.chunk, n);
    const int64_t chunks = (n + chunk - 1) / chunk;
    const auto order = ordered(buckets);
    if (in_place(s, v)) return read_in_place(s, v, buckets, order, chunk, context);
    // Sorted, and every round filled up to whole chunks. Rounds are heads of their own, or follow
    // each other in a ring.
    const int64_t from = config_.ring || config_.official ? 2 : 1;
    const auto laid = [&](const Tensor& x) {  // [B or 1, H or 1, rounds or 1, N]
      return at::constant_pad_nd(order.sorted(x), {0, chunks * chunk - n}).flatten(from, from + 1);
    };
    const auto laid_rows = [&](const Tensor& x) {  // [B, H, N, D]
      return in_orders(x, {order.order, order.inverse}, chunks * chunk).flatten(from, from + 1);
    };
    const auto lifted = [&](const Tensor& x) {  // back to [B, H, rounds, places, …]
      const std::vector<int64_t> apart = from == 1 ? std::vector<int64_t>{heads_, rounds}
                                                   : std::vector<int64_t>{rounds, chunks * chunk};
      return x.unflatten(from, apart);
    };
    const auto visibility = seen(laid, buckets, n, chunks * chunk > n, context);
    const auto pairs = columns(chunks, chunk, rounds, buckets.device());
    const auto bias = config_.deduplicate && rounds > 1
                          ? multiplicity(order.inverse.floor_divide(chunk), buckets, laid, pairs)
                          : Tensor();
    const auto part =
        read_blocks(laid_rows(s * scale()), laid_rows(keys(s)), laid_rows(v), pairs, visibility,
                    weighing(), context, bias.defined() ? bias.to(wide(s)) : bias);
    // All rounds in one softmax; a token that none of them shows another reads itself.
    const auto all =
        join_orders({lifted(part.mean), lifted(part.log_sum)}, {order.order, order.inverse});
    return at::where(all.log_sum.isneginf(), v, all.out);
  }

  // Whether rounds are one softmax of a kernel that reads tokens where they lie.
  bool in_place(const Tensor& s, const Tensor& v) const {
    const bool drops = is_training() && config_.dropout > 0;
    return has_order_kernel(s, s, v) && !config_.ring && !config_.official && !drops &&
           !config_.deduplicate;
  }
  Tensor read_in_place(const Tensor& s, const Tensor& v, const Tensor& buckets, const Order& order,
                       int64_t chunk, const Context& context) const {
    const int64_t n = s.size(2), chunks = (n + chunk - 1) / chunk, empty = chunks * chunk - n;
    const auto laid = [&](const Tensor& x, int64_t fill) {
      return empty > 0 ? at::constant_pad_nd(x, {0, empty}, fill) : x;
    };
    Visibility seen = {.ahead = context.mask.causal ? 0 : Visibility::kAll,
                       .apart = 1,
                       .keep = kept_keys(context.mask.keep)};
    if (config_.same_bucket)
      seen.query_groups = seen.key_groups = laid(order.sorted(buckets), 0).flatten(1, 2);
    const auto pairs = columns(chunks, chunk, buckets.size(2), buckets.device());
    return order_softmax(s, keys(s), v, {laid(order.order, -1), order.inverse},
                         {.pairs = pairs, .visibility = seen, .dropped = {}, .scale = scale()},
                         /*itself=*/true)
        .out;
  }

  // By bucket and then by time; padded tokens have a bucket more.
  Order ordered(const Tensor& buckets) const {
    int64_t all = 1;
    for (const int64_t factor : factors_) all *= factor;
    const auto found = bucket_orders(buckets, all + 1);
    return {found.order, found.inverse};
  }

  template <class Laid>
  Visibility seen(const Laid& laid, const Tensor& buckets, int64_t n, bool filled,
                  const Context& context) const {
    // What fills up a round is hidden, whatever the mask says.
    Tensor keep;
    if (context.mask.keep.defined() && !config_.official)
      keep = laid(context.mask.keep.unsqueeze(1).unsqueeze(1));
    else if (filled)
      keep = laid(at::ones({1, 1, 1, n}, buckets.options().dtype(at::kBool)));
    if (config_.official) return {.keep = keep};
    const auto t = laid(at::arange(n, buckets.options()).view({1, 1, 1, n}));
    Visibility visibility = {.ahead = context.mask.causal ? 0 : Visibility::kAll,
                             .apart = 1,
                             .keep = keep,
                             .query_positions = t,
                             .key_positions = t};
    if (config_.same_bucket) visibility.query_groups = visibility.key_groups = laid(buckets);
    return visibility;
  }

  BlockPairs columns(int64_t chunks, int64_t chunk, int64_t rounds, at::Device device) const {
    if (!config_.ring && !config_.official)
      return near_blocks(chunks * chunk, chunk, config_.back, config_.ahead, device);
    const auto options = at::TensorOptions(at::kLong).device(device);
    const int64_t all = rounds * chunks, most = std::min(config_.back + 1 + config_.ahead, all);
    const auto near = at::arange(-std::min(config_.back, all - 1),
                                 most - std::min(config_.back, all - 1), options);
    return {chunk, chunk,
            (at::arange(all, options).unsqueeze(1) + near).remainder(all).view({1, 1, all, -1})};
  }

  // -log of the number of rounds in which a query reads a key: [B, H rounds, U, W, S W]. A ring
  // shows pairs that no round counts; other code adds 1e-9 to them.
  template <class Laid>
  Tensor multiplicity(const Tensor& chunk_of, const Tensor& buckets, const Laid& laid,
                      const BlockPairs& pairs) const {
    const auto index = pairs.columns.clamp_min(0).flatten();
    const auto difference = [&](const Tensor& x) {  // of queries and listed keys
      const auto of = laid(x.expand_as(chunk_of)).unflatten(-1, {-1, pairs.query_block});
      const auto keys = of.index_select(2, index).unflatten(2, {of.size(2), -1}).flatten(3);
      return of.unsqueeze(-1) - keys.unsqueeze(-2);  // [B, H', U, W, S W]
    };
    Tensor count;
    for (int64_t r = 0; r < chunk_of.size(2); ++r) {
      const auto distance = difference(chunk_of.narrow(2, r, 1));
      auto near = (distance <= config_.back).logical_and(distance >= -config_.ahead);
      if (config_.same_bucket) near = near.logical_and(difference(buckets.narrow(2, r, 1)) == 0);
      count = count.defined() ? count + near : near.to(at::kFloat);
    }
    const auto sure =
        config_.ring ? count.to(at::kDouble) + 1e-9 : count.to(at::kDouble).clamp_min(1);
    return -sure.log();
  }

  // sqrt D times as long as a unit vector; queries are divided by that instead.
  Tensor keys(const Tensor& s) const {
    if (config_.official) return s;
    const auto rows = s.transpose(1, 2).flatten(2);  // [B, N, H D]
    const auto ones = at::ones({width_}, s.options().requires_grad(false));
    if (has_gated_norm_kernel(rows, {}, {}, ones))
      return split_heads(gated_norm(rows, {}, {}, ones, config_.epsilon), heads_);
    return at::rms_norm(s.transpose(1, 2), {width_}, {}, config_.epsilon).transpose(1, 2);
  }
  double scale() const {
    const double root = std::sqrt(static_cast<double>(width_));
    return config_.official ? root : config_.scaled ? 1 / (root * root) : 1 / root;
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  Config config_;
  std::string path_;
  int64_t width_;
  std::vector<int64_t> factors_;
  Tensor rotations_;  // [H, rounds, D, sum of buckets / 2]
};

// Which chunk a token is in depends on the whole sequence, so the past shows the future unless the
// buckets are fixed.
Promises promises(const Config& c) {
  return {.padding = c.ring || c.official ? Padding::visible : Padding::invisible,
          .future = c.official ? Future::refused : Future::frozen,
          .positional = true,
          .rotary = true,
          .time = c.official ? 2.0 : 1.0,
          .memory = c.official ? 2.0 : 1.0};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Reformer>(site, c);
}

void check(const Config& c, const Site& site) {
  require_option(std::ranges::all_of(c.buckets, [](int64_t n) { return n % 2 == 0; }), "buckets",
                 "has an odd number", "a hash has two buckets for each of its directions");
  require_option(!c.official || site.shape.width == 0 || site.shape.inner() == site.shape.width,
                 "official", "has no output projection",
                 "heads times head_width must be the model width");
}

}  // namespace

Mechanism reformer_mechanism() {
  return over_tokens<Config>(
      {.name = "reformer",
       .family = "hashed",
       .paper = "arXiv:2001.04451",
       .cost = "O(N rounds W D)",
       .summary = "Tokens attend within chunks of tokens that were hashed to the same buckets.",
       .exact = "chunk >= N: softmax with shared queries and normalised keys, without oneself",
       .variants = {{"small", "{chunk: 4, rounds: 2, buckets: [4, 2], ahead: 1}"},
                    {"same_bucket", "{chunk: 8, rounds: 3, same_bucket: true, scaled: true}"},
                    {"deduplicate", "{chunk: 8, rounds: 3, deduplicate: true}"},
                    {"union", "{chunk: 8, rounds: 3, same_bucket: true, deduplicate: true}"},
                    {"ring", "{chunk: 4, rounds: 2, buckets: [8], ring: true}"}}},
      promises, make, check);
}

}  // namespace longbow
