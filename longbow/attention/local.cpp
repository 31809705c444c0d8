// Block-local attention: the sequence is cut into blocks of W tokens; a query reads its own block,
// `back` blocks before it and `ahead` blocks after it (a baseline of the Long Range Arena, 2020,
// arXiv:2011.04006).
//   visible(i, j) = i div W - back <= j div W <= i div W + ahead,   and j <= i when causal (then
//   ahead = 0).
// `exact_window` also asks |i - j| <= back W, so that every query sees a window of the same width.
// Besides, the first token can be read by all, and can read all when not causal (CANINE, 2021,
// arXiv:2103.06874). With `shared_qk` keys are the queries, normalised, and a token reads itself
// only if it sees nothing else.
// Exact when the window covers the sequence.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"

namespace longbow {
namespace {

struct Config {
  int64_t window = 64;
  int64_t back = 1, ahead = 1;
  bool exact_window = false, all_read_first = false, first_reads_all = false;
  bool shared_qk = false, wrap = false, shifted_angles = false, official = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("window", c.window, "tokens in a block", range(1, 65536));
  v("back", c.back, "earlier blocks that a query reads besides its own", range(0, 64));
  v("ahead", c.ahead, "later blocks that a query reads; 0 is used when causal", range(0, 64));
  v("exact_window", c.exact_window, "hide keys further than back x window tokens away");
  v("all_read_first", c.all_read_first, "every query reads the first token too");
  v("first_reads_all", c.first_reads_all, "the first token reads every other; not when causal");
  v("shared_qk", c.shared_qk,
    "keys are the normalised queries; a token reads itself only if it sees nothing else");
  v("wrap", c.wrap, "the first blocks are neighbours of the last ones, as in other code");
  v("shifted_angles", c.shifted_angles,
    "rotary positions of queries are `ahead` blocks later, as in other code");
  v("official", c.official,
    "as the Long Range Arena's code: a block is every (N / window)-th token, with up to a block of "
    "zero keys behind the sequence; back and ahead do not count");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Local : public AttentionImpl {
 public:
  Local(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))),
        rotary_(config.shifted_angles ? site.rotary : std::nullopt) {}

  Tensor attend(const Heads& given, Context& context) override {
    const auto heads = prepared(given, context);
    if (config_.official) return official(heads, context);
    auto read = near(heads, context);
    if (config_.all_read_first) read = read + first_key(heads, context);
    auto y = read.mean.to(given.v.scalar_type());
    if (config_.shared_qk) y = at::where(read.saw(), y, given.v);
    if (!config_.first_reads_all || context.mask.causal) return y;
    const auto first = softmax_read(heads.q.narrow(2, 0, 1) * scale_, heads.k, heads.v,
                                    visible_keys(context.mask.keep), weighing("first"), context);
    return at::cat({first, y.narrow(2, 1, y.size(2) - 1)}, 2);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    const int64_t size = std::min((config_.back + 1) * config_.window, capacity);
    open_ring(state, empty, std::max<int64_t>(size, 1));
    if (!config_.all_read_first) return;
    const auto& k = empty.k;
    for (const auto* name :
         {"first_key", "first_value"})  // and a slot for those that are not first
      state.add(name, {k.size(0), k.size(1), 2, k.size(3)}, k.options());
  }

  // With the ring, and before it the first key for queries that do not reach so far.
  Tensor grow(const Heads& given, State& state, Context& context) override {
    const auto heads = prepared(given, context);
    return in_pieces(heads, context, ring_size(state), [&](const Heads& piece, Context& inner) {
      const Reach reach = [&](const Tensor& i, const Tensor& j) { return reaches(i, j); };
      const auto recent = pass_ring(piece, state, reach, inner);
      auto k = recent.k, v = recent.v, visible = recent.visible;
      const auto i = inner.positions.unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
      if (config_.all_read_first) {
        const auto slot = (slots_of(piece, inner, -1) != 0).to(at::kLong);
        auto &key = state.lane.at("first_key"), &value = state.lane.at("first_value");
        write_slots(key, slot, piece.k);
        write_slots(value, slot, piece.v);
        const auto far = reaches(i, at::zeros_like(i)).logical_not();
        k = at::cat({key.narrow(2, 0, 1), k}, 2);
        v = at::cat({value.narrow(2, 0, 1), v}, 2);
        visible = at::cat({far, visible}, 3);
      }
      const auto y = softmax_read(piece.q * scale_, k, v, visible, weighing(""), inner);
      return config_.shared_qk ? at::where(visible.any(-1, true), y, piece.v) : y;
    });
  }

 private:
  // Queries and keys as they are read; scores are still to be scaled.
  Heads prepared(Heads heads, const Context& context) const {
    if (config_.shared_qk) {
      const auto k = heads.k.to(wide(heads.k));
      heads.k = (k / k.norm(2, {-1}, true).clamp_min(1e-6)).to(heads.k.scalar_type());
    }
    if (rotary_ && !context.mask.causal) {
      const auto later =
          at::full({1, 1}, config_.ahead * config_.window, heads.q.options().dtype(at::kLong));
      heads.q = (*rotary_)(heads.q, later.expand({1, heads.q.size(2)}));
    }
    return heads;
  }

  PartialSoftmax near(const Heads& heads, const Context& context) const {
    const int64_t n = heads.q.size(2), w = std::min(config_.window, n);
    const bool causal = context.mask.causal;
    auto pairs = near_blocks(n, w, config_.back, causal ? 0 : config_.ahead, heads.q.device());
    if (config_.wrap && !causal) pairs = around(n, w, pairs.columns.options());
    Visibility visibility = {.apart = config_.shared_qk ? 1 : 0,
                             .keep = kept_keys(context.mask.keep)};
    if (config_.exact_window) visibility.back = visibility.ahead = config_.back * config_.window;
    if (causal) visibility.ahead = 0;
    return read_blocks(heads.q, heads.k, heads.v, pairs, visibility, weighing(""), context, {}, {},
                       scale_);
  }
  BlockPairs around(int64_t n, int64_t w, const at::TensorOptions& options) const {
    const int64_t blocks = (n + w - 1) / w;
    const auto columns = at::arange(blocks, options).unsqueeze(1) +
                         at::arange(-config_.back, config_.ahead + 1, options);
    return {w, w, columns.remainder(blocks).view({1, 1, blocks, -1})};
  }

  // For queries so far from it that `near` does not have it: by blocks, or by tokens.
  PartialSoftmax first_key(const Heads& heads, const Context& context) const {
    const int64_t n = heads.q.size(2);
    const auto& keep = context.mask.keep;
    const auto t = at::arange(n, heads.q.options().dtype(at::kLong)).view({1, 1, n});
    const bool exact = config_.exact_window;
    const Visibility visibility = {.ahead = -(config_.back * (exact ? config_.window : 1) + 1),
                                   .keep = kept_keys(keep.defined() ? keep.narrow(1, 0, 1) : keep),
                                   .query_positions = exact ? t : t.floor_divide(config_.window)};
    return read_blocks(heads.q, heads.k.narrow(2, 0, 1), heads.v.narrow(2, 0, 1),
                       one_block(n, 1, heads.q.device()), visibility, weighing("first_key"),
                       context, {}, {}, scale_);
  }

  // Which keys no later than i a query reads, by position.
  Tensor reaches(const Tensor& i, const Tensor& j) const {
    const int64_t w = config_.window;
    auto visible = i.floor_divide(w) - j.floor_divide(w) <= config_.back;
    if (config_.exact_window) visible = visible.logical_and(i - j <= config_.back * w);
    return config_.shared_qk ? visible.logical_and(i != j) : visible;
  }

  // Token s B + g, with B blocks, is the s-th of block g; the mask of the blocks is cut as if they
  // were contiguous. A block in which all is hidden reads the mean of all.
  Tensor official(const Heads& heads, Context& context) const {
    const int64_t n = heads.q.size(2), w = config_.window, blocks = n / w + 1;
    const auto grouped = [&](const Tensor& x) {  // [B, H, blocks, w, D]
      return at::constant_pad_nd(x, {0, 0, 0, blocks * w - n})
          .unflatten(2, {w, blocks})
          .transpose(2, 3);
    };
    Tensor visible;
    if (context.mask.keep.defined())
      visible = at::constant_pad_nd(context.mask.keep, {0, blocks * w - n}, 1)
                    .view({-1, 1, blocks, 1, w});
    const auto v = grouped(heads.v);
    auto y = softmax_read(grouped(heads.q) * scale_, grouped(heads.k), v, visible, weighing(""),
                          context);
    if (visible.defined()) y = at::where(visible.any(-1, true), y, v.mean(-2, true));
    return y.transpose(2, 3).flatten(2, 3).narrow(2, 0, n);
  }

  Weighing weighing(const std::string& part) const {
    return {config_.dropout, is_training(), part.empty() ? path_ : path_ + "." + part};
  }

  Config config_;
  std::string path_;
  double scale_;
  std::optional<Rotary> rotary_;
};

Promises promises(const Config& c) {
  return {.padding = c.wrap || c.official ? Padding::visible : Padding::invisible,
          .future = c.official ? Future::refused : Future::exact,
          .decode = !c.official,
          .positional = true,
          .rotary = true};
}

Mixer make(const Site& site, const Config& c) {
  return multi_head(site, std::make_shared<Local>(site, c),
                    c.shared_qk ? Keys::queries : Keys::own);
}

void check(const Config& c, const Site&) {
  require_option(!c.shared_qk || !(c.all_read_first || c.first_reads_all || c.official),
                 "shared_qk", "does not go with all_read_first, first_reads_all or official",
                 "leave one of them out");
}

}  // namespace

Mechanism local_mechanism() {
  return over_tokens<Config>(
      {.name = "local",
       .family = "window",
       .paper = "arXiv:2011.04006",
       .cost = "O(N W D)",
       .summary = "Tokens attend within their block and its neighbours.",
       .exact = "window >= N: softmax; window 1 without neighbours: the values",
       .variants =
           {{"alone", "{window: 8, back: 0, ahead: 0}"},
            {"small", "{window: 5, back: 2, ahead: 1}"},
            {"exact_window", "{window: 8, exact_window: true}"},
            {"first_reads_all", "{window: 8, ahead: 0, first_reads_all: true}"},
            {"shared_qk", "{window: 5, shared_qk: true}"},
            {"wrap", "{window: 5, wrap: true}"},
            {"official", "{window: 5, official: true}"},
            {"global_first",
             "{window: 5, back: 0, ahead: 0, all_read_first: true, first_reads_all: true}"}}},
      promises, make, check);
}

}  // namespace longbow
