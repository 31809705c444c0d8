// Block-local attention: the sequence is cut into blocks of W tokens; a query reads its own block,
// `back` blocks before it and `ahead` blocks after it (a baseline of the Long Range Arena, 2020,
// arXiv:2011.04006).
//   visible(i, j) = i div W - back <= j div W <= i div W + ahead,   and j <= i when causal (then
//   ahead = 0).
// `exact_window` also asks |i - j| <= back W, so that every query sees a window of the same width.
// Exact when the window covers the sequence.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

struct Config {
  int64_t window = 64;
  int64_t back = 1, ahead = 1;
  bool exact_window = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("window", c.window, "tokens in a block", range(1, 65536));
  v("back", c.back, "earlier blocks that a query reads besides its own", range(0, 64));
  v("ahead", c.ahead, "later blocks that a query reads; 0 is used when causal", range(0, 64));
  v("exact_window", c.exact_window, "hide keys further than back x window tokens away");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Local : public AttentionImpl {
 public:
  Local(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const int64_t n = heads.q.size(2), w = config_.window, blocks = (n + w - 1) / w;
    const int64_t ahead = context.mask.causal ? 0 : config_.ahead;
    const auto q = blocked(heads.q, blocks);  // [B, H, K, W, D]
    const auto k = gathered(heads.k, blocks, ahead),
               v = gathered(heads.v, blocks, ahead);  // [B, H, K, S, D]
    const auto index = at::arange(n, heads.q.options().dtype(at::kLong));
    const auto i = blocked(index.view({1, 1, n, 1}), blocks);  // [1, 1, K, W, 1]
    const auto j =
        gathered(index.add(1).view({1, 1, n, 1}), blocks, ahead).sub(1).transpose(-2, -1);
    auto visible = reaches(i, j, context.mask.causal).logical_and(j >= 0);  // -1: no token
    if (context.mask.keep.defined())
      visible = visible.logical_and(
          gathered(context.mask.keep.unsqueeze(1).unsqueeze(-1), blocks, ahead).transpose(-2, -1));
    return read(q, k, v, visible, context).flatten(2, 3).narrow(2, 0, n);
  }

  // A ring of the last (back + 1) W keys; slot = position mod size, one more slot for padded
  // tokens.
  void open(State& state, const Heads& empty, int64_t, Context&) override {
    const auto& like = empty.k;
    const int64_t b = like.size(0), h = like.size(1), slots = ring() + 1;
    state.add("keys", {b, h, slots, like.size(3)}, like.options());
    state.add("values", {b, h, slots, like.size(3)}, like.options());
    state.add("positions", {b, 1, slots, 1}, like.options().dtype(at::kLong), -1);
  }

  // New keys stand beside the ring while they are read, so one extension takes at most a ring of
  // tokens.
  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return in_pieces(heads, context, ring(), [&](const Heads& piece, Context& inner) {
      return grow_piece(piece, state, inner);
    });
  }

 private:
  int64_t ring() const { return (config_.back + 1) * config_.window; }

  Tensor reaches(const Tensor& i, const Tensor& j, bool causal) const {
    const int64_t w = config_.window;
    const auto distance = i.floor_divide(w) - j.floor_divide(w);
    auto visible =
        (distance <= config_.back).logical_and(distance >= (causal ? 0 : -config_.ahead));
    if (causal) visible = visible.logical_and(j <= i);
    if (config_.exact_window) visible = visible.logical_and((i - j).abs() <= config_.back * w);
    return visible;
  }

  // [B, H, N, D] -> [B, H, blocks, W, D], filled up with zeros.
  Tensor blocked(const Tensor& x, int64_t blocks) const {
    const int64_t missing = blocks * config_.window - x.size(2);
    const auto padded = missing > 0 ? at::constant_pad_nd(x, {0, 0, 0, missing}) : x;
    return padded.unflatten(2, {blocks, config_.window});
  }

  // For each block, the rows of the blocks around it: [B, H, blocks, (back + 1 + ahead) W, D].
  Tensor gathered(const Tensor& x, int64_t blocks, int64_t ahead) const {
    const auto around = at::constant_pad_nd(blocked(x, blocks), {0, 0, 0, 0, config_.back, ahead});
    std::vector<Tensor> shifted;
    for (int64_t s = 0; s <= config_.back + ahead; ++s)
      shifted.push_back(around.narrow(2, s, blocks));
    return at::cat(shifted, 3);
  }

  Tensor grow_piece(const Heads& heads, State& state, Context& context) {
    auto &keys = state.lane.at("keys"), &values = state.lane.at("values"),
         &positions = state.lane.at("positions");
    const auto& keep = context.mask.keep;
    const auto i = context.positions.unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
    const auto fresh =
        keep.defined() ? i.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), -1) : i;
    const auto j = at::cat({positions, fresh}, 2).transpose(-2, -1);
    const auto visible = reaches(i, j, true).logical_and(j >= 0);
    const auto y =
        read(heads.q, at::cat({keys, heads.k}, 2), at::cat({values, heads.v}, 2), visible, context);
    const auto slots = i.remainder(ring()).masked_fill(fresh < 0, ring()).squeeze(-1).squeeze(1);
    write_slots(keys, slots, heads.k);
    write_slots(values, slots, heads.v);
    write_slots(positions, slots, fresh);
    return y;
  }

  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
              Context& context) {
    return softmax_read(q * scale_, k, v, visible, {config_.dropout, is_training(), path_},
                        context);
  }

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
       .variants = {{"alone", "{window: 8, back: 0, ahead: 0}"},
                    {"small", "{window: 5, back: 2, ahead: 1}"},
                    {"exact_window", "{window: 8, exact_window: true}"}}},
      promises, make);
}

}  // namespace longbow
