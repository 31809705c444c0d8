// Compressive Transformer (Rae et al., 2019, arXiv:1911.05507): Transformer-XL whose memory does
// not forget at once. What leaves it is compressed, `rate` rows to one slot, and queries read the
// last `slots` of these too:
//   o_i = softmax_j(((q_i + u) . k_j + (q_i + v) . r_d(i,j)) / sqrt(D)) v_j
// over j in slots, memory and the tokens up to i; d counts places, and a slot is one. Group g is
// rows [g rate, (g + 1) rate) by absolute position, so any split of a text gives the same. With
//   b_i = i - memory + 1,   or  (i div T) T - memory with segments of T tokens,   c_i = b_i div
//   rate
// query i reads the tokens c_i rate <= j <= i and the slots c_i - slots <= g < c_i: a token stays
// in the memory until its whole group has left the window. Exact limits: without slots
// transformer_xl; mean or max with rate 1 is transformer_xl with memory + slots.
#include <ATen/ATen.h>

#include <numeric>

#include "longbow/attention/compressive/compression.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/layers/past_heads.h"
#include "longbow/nn/layers/past_rows.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/relative.h"
#include "longbow/ops/affine.h"

namespace longbow {
namespace {

enum class Codes { sinusoids, learned };
constexpr std::array<std::string_view, 2> names_of(Codes) {
  return {"sinusoids", "learned"};
}

struct Config {
  int64_t memory = 128, segment = 0, slots = 64, rate = 4;
  Compression compression = Compression::conv;
  int64_t dilation = 1;
  Codes positions = Codes::sinusoids;
  RelativeConfig relative = {};
  double reconstruction = 1, dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("memory", c.memory,
    "past tokens that a query reads as they are, itself among them without "
    "segments",
    range(1, 1 << 20));
  v("segment", c.segment,
    "tokens of a segment, which is read besides the memory before it; 0 = there are none",
    range(0, 1 << 20));
  v("slots", c.slots, "compressed rows that a query reads", range(0, 1 << 20));
  v("rate", c.rate, "rows that are compressed to one", range(1, 1024));
  v("compression", c.compression,
    "mean or maximum of the rows; a convolution over them; or the row that was read most");
  v("dilation", c.dilation, "rows between two taps of the convolution", range(1, 1024));
  v("positions", c.positions, "distances as projected sinusoids, or learned rows of each head");
  fields(v, c.relative);
  v("reconstruction", c.reconstruction,
    "weight of the loss that reading slots be like reading the rows they stand for", at_least(0));
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Compressive : public ProjectedMixer {
 public:
  Compressive(const Site& site, const Config& config)
      : ProjectedMixer(site),
        config_(config),
        rate_(config.slots > 0 ? config.rate : 1),
        unit_(std::max<int64_t>(config.segment, 1)),
        layers_(site.layers),
        path_(site.path) {
    const int64_t learned = config.positions == Codes::learned ? farthest() + config.slots + 1 : 0;
    relative_ = register_module("relative",
                                std::make_shared<RelativeScores>(site, config.relative, learned));
    compressor_ = register_module(
        "compressor",
        std::make_shared<Compressor>(site.at("compressor"), config.compression, rate_));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    if (!context.maps && !counts_use()) return read_whole(x, context);
    const auto behind = [&](const Tensor& t) {
      return at::constant_pad_nd(t, {0, 0, std::min(farthest(), x.size(1) - 1), 0});
    };
    const auto [k, v] = projections()(x);
    const Seen seen = {{behind(k), behind(v)},
                       behind(x),
                       at::zeros({1}, integers(x)),
                       length(x, context.mask.keep)};
    return read(x, seen, nullptr, context);
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    open_past_heads(state, "memory", lanes, farthest(), projections(), config_.slots > 0);
    if (config_.slots == 0) return;
    open_past_heads(state, "slots", lanes, config_.slots, projections());
    if (counts_use())
      open_past_rows(state, "usage", lanes, farthest(), 1,
                     key_->weight.options().dtype(wide(key_->weight)));
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto past = grow_past_heads(state, "memory", x, projections(), context);
    return read(x, {past.heads, past.rows, state.seen, length(x, context.mask.keep)}, &state,
                context);
  }

 private:
  // What stands before the tokens of a call, and they themselves.
  struct Seen {
    KeysAndValues heads;  // [B, H, P + T, D]
    Tensor rows;          // [B, P + T, C]
    Tensor first;         // [B or 1]: the position of the first token
    Tensor length;        // [B or 1]: real tokens
  };
  // Groups that may have left the memory by the end of a call, the first being c at its first
  // token.
  struct Groups {
    Tensor number;  // [B or 1, G], negative before the first token
    Tensor places;  // [B or 1, G, rate]: of their rows among those seen
    Tensor rows;    // [B, G, rate, C]; zero before the first token
    Tensor taps;    // the same of what slots are made of: other rows where there is a dilation
    Tensor left;    // [B or 1, G] bool: by the end of the call
  };

  // A whole sequence, in blocks. Padded tokens stand behind all real ones, and so outputs need no
  // mask.
  Tensor read_whole(const Tensor& x, Context& context) const {
    const int64_t n = x.size(1), groups = config_.slots > 0 ? n / rate_ : 0;
    const auto memory = remembered(n);
    // The distances are made first, so that their gradient of q comes last and is added to that of
    // the kernel, which is laid out as the projection wants it.
    const auto q = split_heads((*query_)(x), heads_);
    const int64_t columns = (std::min(memory.farthest(), n - 1) + 8) / 8 * 8;  // in whole vectors
    const auto distant = relative_->by_distance(q, columns - 1);
    auto all = x;
    Tensor taps, slots;
    if (groups > 0) {
      taps = grouped(x);
      slots = (*compressor_)(taps, {});
      all = at::cat({x, x.new_zeros({x.size(0), memory.first_slot - n, x.size(2)}), slots}, 1);
    }
    const auto both = project_together(all, {key_.get(), value_.get()});
    if (groups > 0) reconstruct({q, both[0], both[1]}, {taps, slots}, context);
    const auto k = split_heads(both[0], heads_), v = split_heads(both[1], heads_);
    const auto [pairs, seen] = remembered_window(memory, n, k.size(2), x.device());
    return merged(read_blocks(relative_->content_queries(q), k, v, pairs, seen, weighing(), context,
                              distant, {.low = 1 - columns, .high = 0}, relative_->scale())
                      .mean);
  }

  // Slots stand behind the tokens, which are filled up with zeros.
  RememberedKeys remembered(int64_t tokens) const {
    return {.tokens = config_.memory,
            .segment = config_.segment,
            .rate = rate_,
            .slots = config_.slots,
            .first_slot = (tokens + kMemoryBlock - 1) / kMemoryBlock * kMemoryBlock};
  }

  // The taps of all groups of x [B, N, C], zero before the first token: [B, N div rate, rate, C].
  Tensor grouped(const Tensor& x) const {
    const int64_t groups = x.size(1) / rate_, span = (rate_ - 1) * config_.dilation + 1;
    if (config_.dilation == 1) {
      const auto whole = groups * rate_ < x.size(1) ? x.narrow(1, 0, groups * rate_) : x;
      return whole.unflatten(1, {groups, rate_});
    }
    return at::constant_pad_nd(x, {0, 0, span - rate_, 0})
        .unfold(1, span, rate_)
        .slice(-1, 0, span, config_.dilation)
        .transpose(-2, -1);
  }

  // Padded tokens stand behind all real ones, and so outputs need no mask.
  Tensor read(const Tensor& x, const Seen& seen, State* state, Context& context) {
    const int64_t tokens = x.size(1), back = seen.heads.k.size(2) - tokens;
    const auto band = tiles(tokens, back);
    const auto q = band.queries(split_heads((*query_)(x), heads_));
    const auto i = band.query_positions(seen.first), j = band.key_positions(seen.first);
    const auto left = compressed_before(i);  // c_i, [B or 1, 1, K, tile, 1]
    const auto distant = relative_->by_distance(q, back + config_.slots);
    const auto content = relative_->content(q, band.windows(seen.heads.k));
    auto scores = content.to(wide(content)) + skewed(distant.narrow(-1, config_.slots, back + 1));
    auto visible = (j <= i).logical_and(j >= left * rate_).logical_and(j >= 0);
    auto values = band.windows(seen.heads.v);
    if (config_.slots > 0) {
      const auto real = i < (seen.first + seen.length).view({-1, 1, 1, 1, 1});
      const auto usage =
          counts_use() ? used(masked_softmax(scores.detach(), visible) * real, band, state, context)
                       : Tensor();
      const auto groups = leaving(seen, tokens, back);
      const auto index = usage.defined() ? most_used(usage, groups, context) : Tensor();
      reconstruct(q, real, groups, band, context);
      const auto slots = all_slots((*compressor_)(groups.taps, index), groups, state);
      const auto g = slot_numbers(seen.first, band);  // [B or 1, 1, K, 1, S']
      const auto by_slot = relative_->content(q, slot_windows(slots.k, band));
      const auto place = (i - left * rate_ + left - g).clamp(0, back + config_.slots);
      const auto column = (back + config_.slots - place).expand(by_slot.sizes());
      scores = at::cat({scores, by_slot.to(scores.scalar_type()) + distant.gather(-1, column)}, -1);
      const auto there = (g >= 0).logical_and(g < left).logical_and(g >= left - config_.slots);
      visible = at::cat({visible, there}, -1);
      values = at::cat({values, slot_windows(slots.v, band)}, 3);
    }
    return merged(band.together(softmax_read(scores, values, visible, weighing(), context)));
  }

  // c_i = b_i div rate, negative before anything has left.
  Tensor compressed_before(const Tensor& i) const {
    const auto begin = config_.segment > 0
                           ? i.floor_divide(config_.segment) * config_.segment - config_.memory
                           : i - (config_.memory - 1);
    return begin.floor_divide(rate_);
  }
  // c grows by at most this much within so many tokens.
  int64_t most_groups(int64_t tokens) const { return (tokens + unit_ - 1 + rate_ - 1) / rate_; }

  // How far whole groups that leave the memory stand before the tokens with which they do.
  int64_t behind() const {
    const int64_t window = config_.memory - (config_.segment > 0 ? 0 : 1);
    return (window + rate_ - 1) / rate_ * rate_;
  }
  // Tiles begin at the same place of a group and of a segment, so that c grows by the same from one
  // to the next. Without segments, what leaves during one are the rows of a tile before it.
  int64_t tile() const {
    constexpr int64_t kLeast = 32;
    const int64_t unit = config_.segment > 0 ? config_.segment : std::max(behind(), rate_);
    return (std::max(behind(), kLeast) + unit - 1) / unit * unit;
  }
  Band tiles(int64_t tokens, int64_t back) const {
    return {.tokens = tokens, .tile = std::min(tile(), tokens), .back = back, .ahead = 0};
  }
  int64_t groups_between(const Band& band) const {
    return band.tiles() > 1 ? band.tile / rate_ : 1;
  }

  Groups leaving(const Seen& seen, int64_t tokens, int64_t back) const {
    const int64_t last = rate_ - 1;
    Groups groups;
    groups.number = compressed_before(seen.first).unsqueeze(1) +
                    at::arange(most_groups(tokens), seen.first.options());
    const auto place_of = [&](const Tensor& position) {
      return (position - seen.first.view({-1, 1, 1}) + back).clamp(0, back + tokens - 1);
    };
    const auto rows_at = [&](const Tensor& position) {
      return at_places(seen.rows, place_of(position)).masked_fill((position < 0).unsqueeze(-1), 0);
    };
    const auto member = at::arange(rate_, seen.first.options());
    const auto begin = (groups.number * rate_).unsqueeze(-1);  // [B or 1, G, 1]
    groups.places = place_of(begin + member);
    groups.taps = rows_at(begin + (member - last) * config_.dilation + last);
    groups.rows = config_.dilation == 1 ? groups.taps : rows_at(begin + member);
    groups.left = groups.number < compressed_before(seen.first + seen.length).unsqueeze(1);
    return groups;
  }

  // x [B, P + T, E] at places [B or 1, G, rate]: [B, G, rate, E].
  static Tensor at_places(const Tensor& x, const Tensor& places) {
    const auto flat = places.flatten(1).unsqueeze(-1).expand({x.size(0), -1, x.size(2)});
    return x.gather(1, flat).unflatten(1, {places.size(1), places.size(2)});
  }

  // Weights that each row got so far as a token of the memory, [B, P + T, 1], in the mean over
  // heads.
  Tensor used(const Tensor& weights, const Band& band, State* state, Context& context) const {
    const int64_t batch = weights.size(0), rows = band.back + band.tiles() * band.tile;
    const auto starts = at::arange(band.tiles(), integers(weights)).mul(band.tile).unsqueeze(1);
    const auto row = (starts + at::arange(weights.size(-1), starts.options())).flatten();
    const auto added = at::zeros({batch, rows}, weights.options())
                           .index_add(1, row, weights.mean(1).sum(-2).flatten(1))
                           .narrow(1, 0, band.back + band.tokens)
                           .unsqueeze(-1);
    if (!state) return added;
    auto& before = state->lane.at("usage");
    before = before + added.narrow(1, 0, band.back);
    return grow_past_rows(*state, "usage", added.narrow(1, band.back, band.tokens), context);
  }

  Tensor most_used(const Tensor& usage, const Groups& groups, Context& context) const {
    return context.pick(path_ + ".used", [&] {
      return at_places(usage, groups.places).squeeze(-1).argmax(-1);  // [B, G]
    });
  }

  // Slots from before and those of the groups: [B, H, slots + G, D].
  KeysAndValues all_slots(const Tensor& fresh, const Groups& groups, State* state) const {
    const Context left = {.mask = {.keep = groups.left}};
    if (state) return grow_past_heads(*state, "slots", fresh, projections(), left).heads;
    const auto behind = [&](const Tensor& t) {
      return at::constant_pad_nd(t, {0, 0, config_.slots, 0});
    };
    const auto [k, v] = projections()(fresh);
    return {behind(k), behind(v)};
  }

  // Of each tile the slots that its queries may reach, [B, H, K, S', D], and their numbers.
  int64_t slot_window(const Band& band) const { return config_.slots + most_groups(band.tile); }
  Tensor slot_windows(const Tensor& slots, const Band& band) const {
    const int64_t step = groups_between(band), window = slot_window(band);
    const int64_t missing = (band.tiles() - 1) * step + window - slots.size(2);
    return at::constant_pad_nd(slots, {0, 0, 0, std::max<int64_t>(missing, 0)})
        .unfold(2, window, step)
        .narrow(2, 0, band.tiles())
        .transpose(-2, -1);
  }
  Tensor slot_numbers(const Tensor& first, const Band& band) const {
    const auto starts = at::arange(band.tiles(), first.options()) * groups_between(band);
    const auto number = starts.unsqueeze(1) + at::arange(slot_window(band), first.options());
    return number.view({1, 1, band.tiles(), 1, -1}) +
           (compressed_before(first) - config_.slots).view({-1, 1, 1, 1, 1});
  }

  // The mean square, over queries and channels, of the difference between what the queries of a
  // tile read from the rows that leave during it and what they read from the slots these become, by
  // content alone. Nothing but the compressor learns from it.
  void reconstruct(const Tensor& q, const Tensor& real, const Groups& groups, const Band& band,
                   Context& context) const {
    if (!reconstructs()) return;
    const int64_t tiles = band.tiles(), found = groups.rows.size(1);
    const int64_t each = tiles > 1 ? groups_between(band) : found, missing = tiles * each - found;
    const auto of_tiles = [&](const Tensor& x) {
      return at::constant_pad_nd(x.detach(), {0, 0, 0, 0, 0, missing});
    };
    const auto there =
        at::constant_pad_nd(groups.left.logical_and(groups.number >= 0), {0, missing})
            .view({-1, 1, tiles, 1, each});
    const auto queries = q.detach() / std::sqrt(static_cast<double>(q.size(-1)));
    const auto read_by_content = [&](const Tensor& source, const Tensor& visible) {
      const auto by_tile = [&](const Linear& projection) {  // [B, K each, C] -> [B, H, K, each, D]
        const auto bias = projection.bias.defined() ? projection.bias.detach() : projection.bias;
        return split_heads(at::linear(source, projection.weight.detach(), bias), heads_)
            .unflatten(2, {tiles, -1});
      };
      const auto k = by_tile(*key_), v = by_tile(*value_);
      const auto weights = masked_softmax(queries.matmul(k.transpose(-2, -1)), visible);
      return weights.matmul(v.to(weights.scalar_type()));  // [B, H, K, tile, D]
    };
    const auto difference =
        read_by_content(of_tiles(groups.rows).flatten(1, 2), there.repeat_interleave(rate_, -1)) -
        read_by_content((*compressor_)(of_tiles(groups.taps), {}), there);
    const auto counted =
        real.logical_and(there.any(-1, true)).expand({q.size(0), 1, tiles, band.tile, 1});
    const auto terms = counted.sum() * (difference.size(1) * difference.size(-1));
    context.add_loss((difference.square() * counted).sum() / terms.clamp_min(1) *
                     (config_.reconstruction / static_cast<double>(layers_)));
  }

  // The same of a whole sequence, from what was made of it already.
  struct Projected {
    Tensor q, k, v;  // [B, H, N, D]; of tokens and slots [B, M, H D]
  };
  struct Compressed {
    Tensor taps, slots;  // [B, G, rate, C], [B, G, C]
  };
  void reconstruct(const Projected& from, const Compressed& of, Context& context) const {
    if (!reconstructs()) return;
    const int64_t n = from.q.size(2);
    const auto memory = remembered(n);
    const int64_t gone = memory.left(n);  // groups
    if (gone == 0) return context.add_loss(at::zeros({}, from.q.options().dtype(wide(from.q))));
    const auto counted = counted_for(from.q, gone, context.mask.keep);
    const auto slots = compressor_->known(of.slots, of.taps);
    const auto of_tokens = [&](const Tensor& x) {
      return split_heads(x.detach().narrow(1, 0, gone * rate_), heads_);
    };
    const auto of_slots = [&](const Tensor& x, const Linear& projection) {
      const auto known = x.narrow(1, memory.first_slot, slots.size(1));
      const auto bias = projection.bias.defined() ? projection.bias.detach() : projection.bias;
      return split_heads(affine_again(known, slots, projection.weight.detach(), bias), heads_)
          .narrow(2, 0, gone);
    };
    auto pairs = leaving_blocks(n, gone, from.q.device());
    const auto read = [&](const Tensor& k, const Tensor& v, const Tensor& keep) {
      return read_blocks(from.q.detach(), k, v, pairs, {.keep = keep}, {}, context, {}, {},
                         relative_->scale())
          .mean;
    };
    const auto want = read(of_tokens(from.k), of_tokens(from.v), counted.rows);
    pairs.key_block /= rate_;
    auto difference =
        want - read(of_slots(from.k, *key_), of_slots(from.v, *value_), counted.groups);
    if (counted.queries.defined()) difference = difference * counted.queries;
    const auto square = at::linalg_vector_norm(difference, 2, {}, false, wide(difference)).square();
    const auto numbers = static_cast<double>(heads_ * from.q.size(3) * layers_);
    context.add_loss(square * (config_.reconstruction / numbers) /
                     counted.terms.to(square.scalar_type()));
  }

  // What the loss counts of each sequence: rows and groups that have left by its end, [B, 1, gone
  // rate] and [B, 1, gone], real queries, [B, 1, N, 1], all undefined where nothing is padded; and
  // the number of queries whose tile has something to read. Others have read zero.
  struct Counted {
    Tensor rows, groups, queries, terms;
  };
  Counted counted_for(const Tensor& q, int64_t gone, const Tensor& keep) const {
    const int64_t n = q.size(2), first = behind() / tile() * tile();
    const auto last = [&](const auto& left) { return left * rate_ + behind() + tile() - 1; };
    if (!keep.defined()) {
      const int64_t queries = std::min(n, last(gone) / tile() * tile()) - std::min(n, first);
      return {.terms = at::full({}, q.size(0) * queries, integers(q))};
    }
    const auto length = keep.sum(1), left = compressed_before(length).clamp_min(0);  // [B]
    const auto terms =
        at::minimum(length, last(left).floor_divide(tile()) * tile()) - length.clamp_max(first);
    const auto groups = (at::arange(gone, integers(q)) < left.unsqueeze(1)).unsqueeze(1);
    const auto real = at::arange(n, integers(q)) < length.unsqueeze(1);
    return {.rows = groups.repeat_interleave(rate_, -1),
            .groups = groups,
            .queries = real.view({-1, 1, n, 1}),
            .terms = terms.masked_fill(left == 0, 0).sum().clamp_min(1)};
  }

  // Each tile of queries beside the rows of the groups that leave during it.
  BlockPairs leaving_blocks(int64_t queries, int64_t gone, at::Device device) const {
    const auto options = at::TensorOptions(at::kLong).device(device);
    const int64_t rows = std::gcd(tile(), behind()), each = tile() / rows,
                  blocks = (gone * rate_ + rows - 1) / rows;
    const auto starts =
        at::arange((queries + tile() - 1) / tile(), options) * each - behind() / rows;
    const auto columns = starts.unsqueeze(1) + at::arange(each, options);
    return {.query_block = tile(),
            .key_block = rows,
            .columns =
                columns.masked_fill(columns >= blocks, -1).clamp_min(-1).unsqueeze(0).unsqueeze(0),
            .readers = 1};
  }

  bool reconstructs() const {
    return is_training() && config_.reconstruction > 0 && compressor_->learns();
  }

  // The distance of the oldest row that a query or a compression can read.
  int64_t farthest() const {
    const int64_t window = config_.memory - 1 + config_.segment;
    return window + (rate_ - 1) * config_.dilation;
  }
  bool counts_use() const {
    return config_.slots > 0 && config_.compression == Compression::most_used;
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }
  KeyValueProjections projections() const { return {*key_, *value_, heads_}; }
  static at::TensorOptions integers(const Tensor& x) {
    return x.options().dtype(at::kLong).requires_grad(false);
  }
  static Tensor length(const Tensor& x, const Tensor& keep) {
    return keep.defined() ? keep.sum(1) : at::full({1}, x.size(1), integers(x));
  }

  Config config_;
  int64_t rate_, unit_, layers_;
  std::string path_;
  std::shared_ptr<RelativeScores> relative_;
  std::shared_ptr<Compressor> compressor_;
};

void check(const Config& c, const Site&) {
  require_option(c.slots == 0 || c.segment % c.rate == 0, "segment",
                 c10::str("is ", c.segment, ", which is no multiple of the rate ", c.rate),
                 "groups of rows must not begin in one segment and end in another");
  require_option(c.dilation == 1 || c.compression == Compression::conv, "dilation",
                 c10::str("is ", c.dilation, ", but nothing is convolved"),
                 "leave it out, or take compression: conv");
}

Promises promises(const Config&) {
  return {.future = Future::exact, .bidirectional = false, .decode = true, .positional = true};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Compressive>(site, c);
}

}  // namespace

Mechanism compressive_mechanism() {
  return over_tokens<Config>(
      {.name = "compressive",
       .family = "recurrent memory",
       .paper = "arXiv:1911.05507",
       .cost = "O(N (W + R) D)",
       .summary = "Transformer-XL whose old memories are compressed before they are forgotten.",
       .exact = "slots 0: transformer_xl; rate 1 and mean: transformer_xl of memory + slots",
       .variants = {{"mean", "{memory: 5, slots: 3, rate: 2, compression: mean}"},
                    {"max", "{memory: 6, segment: 4, slots: 3, rate: 2, compression: max}"},
                    {"most_used", "{memory: 6, slots: 4, rate: 3, compression: most_used}"},
                    {"dilated", "{memory: 7, slots: 3, rate: 3, dilation: 2}"},
                    {"learned", "{memory: 8, segment: 8, slots: 3, rate: 4, positions: learned}"}}},
      promises, make, check);
}

}  // namespace longbow
