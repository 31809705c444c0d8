// Transformer-XL (Dai et al., 2019, arXiv:1901.02860): causal attention with relative positions
// over a memory of past tokens,
//   s_ij = ((q_i + u) . k_j + (q_i + v) . W_r R_(i - j)) / sqrt(D),
// R_d the sinusoids of distance d. A query reads the last `memory` tokens, itself among them: the
// paper's form of equal length, in which every layer is a sliding window. With segments of T tokens
// it reads its segment up to itself and the `memory` tokens before that:
//   visible(i, j) = i - memory < j <= i,   or   (i div T) T - memory <= j <= i.
// Positions are absolute, so any split of a text into extensions gives the same.
// Exact limit: memory >= N is relative causal attention; with W_r = u = v = 0 softmax.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/layers/past_heads.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/relative.h"

namespace longbow {
namespace {

struct Config {
  int64_t memory = 128, segment = 0;
  RelativeConfig relative = {};
  bool zero_start = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("memory", c.memory, "past tokens that a query reads, itself among them without segments",
    range(1, 1 << 20));
  v("segment", c.segment,
    "tokens of a segment, which is read besides the memory before it; 0 = there are none",
    range(0, 1 << 20));
  fields(v, c.relative);
  v("zero_start", c.zero_start,
    "as many zero keys and values as the memory holds stand before the first token");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class TransformerXl : public ProjectedMixer {
 public:
  TransformerXl(const Site& site, const Config& config)
      : ProjectedMixer(site), config_(config), path_(site.path) {
    relative_ =
        register_module("relative", std::make_shared<RelativeScores>(site, config.relative));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    if (config_.segment == 0 && !config_.zero_start && !context.maps)
      return read_window(x, context);
    const int64_t past = config_.zero_start ? farthest() : std::min(farthest(), x.size(1) - 1);
    const auto behind = [&](const Tensor& t) { return at::constant_pad_nd(t, {0, 0, past, 0}); };
    const auto [k, v] = projections()(x);
    return read(x, {behind(k), behind(v)}, at::zeros({1}, x.options().dtype(at::kLong)), context);
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    open_past_heads(state, "memory", lanes, farthest(), projections());
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    auto [k, v] = grow_past_heads(state, "memory", x, projections(), context).heads;
    if (config_.zero_start) {  // projected rows that are empty have biases
      const auto j = at::arange(-farthest(), x.size(1), state.seen.options()) +
                     state.seen.unsqueeze(1);  // [B, past + T]
      const auto empty = (j < 0).unsqueeze(1).unsqueeze(-1);
      k = k.masked_fill(empty, 0);
      v = v.masked_fill(empty, 0);
    }
    return read(x, {k, v}, state.seen, context);
  }

 private:
  // A whole sequence, of which every query reads a window. Padded tokens stand behind all real
  // ones, and so need no mask.
  Tensor read_window(const Tensor& x, const Context& context) const {
    constexpr int64_t kBlock = 64;
    const int64_t n = x.size(1), back = std::min(farthest(), n - 1);
    const auto rows = project_together(x, {query_.get(), key_.get(), value_.get()});
    const auto by_head = [&](size_t i) { return split_heads(rows[i], heads_); };
    // Made first, so that its gradient of q comes last and is added to that of the kernel, which is
    // laid out as the projection wants it.
    const auto q = by_head(0), distant = relative_->by_distance(q, back);
    const auto pairs =
        near_blocks(n, std::min(kBlock, n), (back + kBlock - 1) / kBlock, 0, x.device());
    return merged(read_blocks(relative_->content_queries(q), by_head(1), by_head(2), pairs,
                              {.back = back, .ahead = 0}, weighing(), context, distant,
                              {.low = -back, .high = 0}, relative_->scale())
                      .mean);
  }

  // Rows of `past` [B, H, P + N, D] stand before those of x, whose first token stands at `first`
  // [B]. Padded tokens stand behind all real ones, and so need no mask.
  Tensor read(const Tensor& x, const KeysAndValues& past, const Tensor& first, Context& context) {
    const int64_t tokens = x.size(1), back = past.k.size(2) - tokens;
    const auto band = Band::behind(tokens, back);
    const auto q = band.queries(split_heads((*query_)(x), heads_));
    const auto i = band.query_positions(first), j = band.key_positions(first);
    const auto content = relative_->content(q, band.windows(past.k));
    const auto scores =
        content.to(wide(content)) + skewed(relative_->by_distance(q, back));  // [B, H, K, tile, S]
    return merged(band.together(
        softmax_read(scores, band.windows(past.v), visible(i, j), weighing(), context)));
  }

  Tensor visible(const Tensor& i, const Tensor& j) const {
    const auto oldest = config_.segment > 0
                            ? i.floor_divide(config_.segment) * config_.segment - config_.memory
                            : i - (config_.memory - 1);
    const auto seen = (j <= i).logical_and(j >= oldest);
    return seen.logical_and(j >= (config_.zero_start ? -config_.memory : 0));
  }

  // The distance of the oldest key that a query can read.
  int64_t farthest() const {
    return config_.memory - 1 + (config_.segment > 0 ? config_.segment : 0);
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }
  KeyValueProjections projections() const { return {*key_, *value_, heads_}; }

  Config config_;
  std::string path_;
  std::shared_ptr<RelativeScores> relative_;
};

Promises promises(const Config&) {
  return {.future = Future::exact, .bidirectional = false, .decode = true, .positional = true};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<TransformerXl>(site, c);
}

}  // namespace

Mechanism transformer_xl_mechanism() {
  return over_tokens<Config>(
      {.name = "transformer_xl",
       .family = "recurrent memory",
       .paper = "arXiv:1901.02860",
       .cost = "O(N W D)",
       .summary = "Causal attention with relative positions over a memory of past tokens.",
       .exact = "memory >= N and W_r = u = v = 0: softmax",
       .variants = {{"small", "{memory: 5, shared: false}"},
                    {"clamp", "{memory: 9, clamp: 3}"},
                    {"segment", "{memory: 6, segment: 4}"},
                    {"zero_start", "{memory: 6, segment: 4, zero_start: true}"}}},
      promises, make);
}

}  // namespace longbow
