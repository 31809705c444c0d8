// Block-local attention: the sequence is cut into blocks of W tokens; a query reads its own block,
// `back` blocks before it and `ahead` blocks after it (a baseline of the Long Range Arena, 2020,
// arXiv:2011.04006).
//   visible(i, j) = i div W - back <= j div W <= i div W + ahead,   and j <= i when causal (then
//   ahead = 0).
// `exact_window` also asks |i - j| <= back W, so that every query sees a window of the same width.
// Besides, the first token can be read by all, and can read all when not causal (CANINE, 2021,
// arXiv:2103.06874).
// Exact when the window covers the sequence.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/band.h"

namespace longbow {
namespace {

struct Config {
  int64_t window = 64;
  int64_t back = 1, ahead = 1;
  bool exact_window = false, all_read_first = false, first_reads_all = false;
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
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Local : public AttentionImpl {
 public:
  Local(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {}

  // A tile is a block, its halo the blocks around it. One block needs neither.
  Tensor attend(const Heads& heads, Context& context) override {
    const int64_t n = heads.q.size(2), w = std::min(config_.window, n), others = (n - 1) / w * w;
    const int64_t ahead = context.mask.causal ? 0 : config_.ahead;
    const Band band = {.tokens = n,
                       .tile = w,
                       .back = std::min(config_.back * w, others),
                       .ahead = std::min(ahead * w, others)};
    const auto given = scaled(heads);
    const auto sees = reach(context.mask.causal);
    const auto y = config_.all_read_first ? with_first_key(given, band, sees, context)
                                          : banded_softmax(given, band, sees, weighing(), context);
    if (!config_.first_reads_all || context.mask.causal) return y;
    auto own = weighing();
    own.path += ".first";
    const auto first = softmax_read(given.q.narrow(2, 0, 1), given.k, given.v,
                                    visible_keys(context.mask.keep), own, context);
    return at::cat({first, y.narrow(2, 1, n - 1)}, 2);
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

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    if (config_.all_read_first) return grow_with_first_key(scaled(heads), state, context);
    return grow_ring(scaled(heads), state, reach(true), weighing(), context);
  }

 private:
  // The first key stands before the others of every tile, for queries that do not reach so far.
  Tensor with_first_key(const Heads& heads, const Band& band, const Reach& sees, Context& context) {
    const auto& keep = context.mask.keep;
    const auto i = at::arange(band.tiles() * band.tile, heads.q.options().dtype(at::kLong))
                       .view({1, 1, band.tiles(), band.tile, 1});
    auto far = sees(i, at::zeros_like(i)).logical_not();
    if (keep.defined()) far = far.logical_and(keep.narrow(1, 0, 1).view({-1, 1, 1, 1, 1}));
    const auto visible = at::cat({far, band.visible(sees, keep, heads.q.device())}, -1);
    const auto joined = [&](const Tensor& x) {
      const auto first = x.narrow(2, 0, 1).unsqueeze(2).expand({-1, -1, band.tiles(), -1, -1});
      return at::cat({first, band.keys(x)}, 3);
    };
    return band.together(softmax_read(band.queries(heads.q), joined(heads.k), joined(heads.v),
                                      visible, weighing(), context));
  }
  // The first key stands before the ring, for queries that do not reach so far.
  Tensor grow_with_first_key(const Heads& heads, State& state, Context& context) const {
    const auto sees = reach(true);
    return in_pieces(heads, context, ring_size(state), [&](const Heads& piece, Context& inner) {
      const auto place = slots_of(piece, inner, -1);  // [B, T]
      const auto slot = (place != 0).to(at::kLong);
      auto &key = state.lane.at("first_key"), &value = state.lane.at("first_value");
      write_slots(key, slot, piece.k);
      write_slots(value, slot, piece.v);
      const auto recent = pass_ring(piece, state, sees, inner);
      const auto i = inner.positions.unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
      const auto far = sees(i, at::zeros_like(i)).logical_not();
      const auto joined = [](const Tensor& first, const Tensor& others) {
        return at::cat({first.narrow(2, 0, 1), others}, 2);
      };
      return softmax_read(
          piece.q, joined(key, recent.k), joined(value, recent.v),
          at::cat({far.expand_as(recent.visible.narrow(3, 0, 1)), recent.visible}, 3), weighing(),
          inner);
    });
  }

  Reach reach(bool causal) const {
    return [=, this](const Tensor& i, const Tensor& j) {
      const int64_t w = config_.window, ahead = causal ? 0 : config_.ahead;
      const auto blocks = i.floor_divide(w) - j.floor_divide(w);
      auto visible = (blocks <= config_.back).logical_and(blocks >= -ahead);
      if (causal) visible = visible.logical_and(j <= i);
      if (config_.exact_window) visible = visible.logical_and((i - j).abs() <= config_.back * w);
      return visible;
    };
  }
  Heads scaled(Heads heads) const {
    heads.q = heads.q * scale_;
    return heads;
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  Config config_;
  std::string path_;
  double scale_;
};

Promises promises(const Config&) {
  return {.future = Future::exact, .decode = true, .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Local>(site, c);
}

}  // namespace

Mechanism local_mechanism() {
  return over_heads<Config>(
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
            {"global_first",
             "{window: 5, back: 0, ahead: 0, all_read_first: true, first_reads_all: true}"}}},
      promises, make);
}

}  // namespace longbow
