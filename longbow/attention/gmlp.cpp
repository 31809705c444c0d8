// gMLP (Liu et al., 2021, arXiv:2105.08050): tokens are mixed by a learned matrix over positions
// that gates half of the channels of one feed-forward layer,
//   [z1, z2] = GELU(U x),   g = W LN(z2) + b (+ tiny attention(x)),   y = V (z1 * g),
// with W [N, N] over positions, b one number a position. The block has no feed-forward layer
// besides. W starts near 0 and b at 1, so that a block starts as a plain feed-forward layer.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/fft_convolution.h"

namespace longbow {
namespace {

enum class Spatial { full, toeplitz, lower_toeplitz };
constexpr std::array<std::string_view, 3> names_of(Spatial) {
  return {"full", "toeplitz", "lower_toeplitz"};
}

struct Config {
  int64_t width = 0, groups = 1;
  Spatial spatial = Spatial::full;
  int64_t attention = 0, dense_below = 2048;
};
template <class V>
void fields(V& v, Config& c) {
  v("width", c.width, "f, the width of U x; 0 = six times the model's", at_least(0));
  v("groups", c.groups, "groups of channels, each with its own W", at_least(1));
  v("spatial", c.spatial,
    "W free; W_tj = w_(t-j); or W_tj = r_t c_j w_(t-j) for j <= t and 0 above");
  v("attention", c.attention, "width of a tiny attention that is added to the gate; 0 = none",
    at_least(0));
  v("dense_below", c.dense_below, "longer sequences convolve by FFT when spatial is toeplitz",
    at_least(0));
}

int64_t gated_channels(const Config& c, const Site& site) {
  return (c.width > 0 ? c.width : 6 * site.shape.width) / 2;
}

class Gmlp : public MixerImpl {
 public:
  Gmlp(const Site& site, const Config& config)
      : config_(config),
        longest_(site.shape.max_length),
        half_(gated_channels(config, site)),
        path_(site.path) {
    const int64_t width = site.shape.width, groups = config.groups;
    TORCH_CHECK(longest_ > 0, "gmlp: W needs the longest sequence; set max_length");
    up_ = linear(site, "up", width, 2 * half_);
    down_ = linear(site, "down", half_, width);
    norm_ = register_module("gate_norm", std::make_shared<LayerNorm>(half_));
    const Hint free = {.decay = false};  // decay would drag the gate to b
    const double bound = 1e-3 / static_cast<double>(longest_);
    const auto start = [&](at::IntArrayRef shape) {
      return initial_uniform(site, "spatial", shape, bound);
    };
    if (config.spatial == Spatial::full)
      spatial_ = parameter("spatial", start({groups, longest_, longest_}), free);
    else if (config.spatial == Spatial::toeplitz)
      spatial_ = parameter("spatial", start({groups, 2 * longest_ - 1}), free);
    else
      spatial_ = parameter("spatial", start({groups, longest_}), free);
    if (config.spatial == Spatial::lower_toeplitz) {
      row_scale_ = parameter("row_scale", at::ones({groups, longest_}), free);
      column_scale_ = parameter("column_scale", at::ones({groups, longest_}), free);
    }
    bias_ = parameter("spatial_bias", at::ones({groups, longest_}), free);
    if (config.attention == 0) return;
    Site unbiased = site;
    unbiased.bias = false;
    query_ = linear(unbiased, "query", width, config.attention);
    key_ = linear(unbiased, "key", width, config.attention);
    value_ = linear(unbiased, "value", width, config.attention);
    attention_output_ = linear(site, "attention_output", config.attention, half_);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& mask = context.mask;
    const int64_t n = x.size(1);
    TORCH_CHECK(n <= longest_, "gmlp: ", n, " tokens, but max_length is ", longest_);
    const auto [z, gating] = halves(x, mask.keep);
    const bool by_fft = config_.spatial == Spatial::toeplitz && n > config_.dense_below;
    auto gate = by_fft ? convolved(gating, mask.causal) : multiplied(gating, mask.causal);
    gate = merge_heads(gate + bias_.narrow(1, 0, n).unsqueeze(-1));
    if (query_) {
      const auto heads = attention_heads(x);
      const auto visible = visible_pairs(mask, n, n, x.device());
      gate = gate + attended(heads.q, heads.k, heads.v, visible, context);
    }
    return (*down_)(z * gate.to(z.scalar_type()));
  }

  void open(State& state, int64_t lanes, int64_t capacity, Context&) override {
    const auto options = up_->weight.options().requires_grad(false);
    state.add("gating", {lanes, config_.groups, capacity + 1, half_ / config_.groups}, options);
    if (!query_) return;
    const auto none = at::zeros({lanes, 1, 0, config_.attention}, options);
    open_cache(state, {none, none, none, {}, {}}, capacity);
  }

  // One row of W for each new token, over all rows so far.
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto [z, gating] = halves(x, context.mask.keep);
    auto& rows = state.lane.at("gating");
    const int64_t capacity = rows.size(2) - 1;
    TORCH_CHECK(capacity <= longest_, "gmlp: a state of ", capacity, " tokens, but max_length is ",
                longest_);
    const Heads as_heads = {gating, gating, gating, x, x};
    write_slots(rows, slots_of(as_heads, context, capacity), gating);
    const auto places = context.positions.clamp_max(longest_ - 1);  // of padded tokens
    auto gate = rows_of_w(places, capacity).transpose(0, 1).matmul(rows.narrow(2, 0, capacity));
    gate = gate + at::embedding(bias_.t(), places).transpose(1, 2).unsqueeze(-1);
    gate = merge_heads(gate);
    if (query_) {
      const auto heads = attention_heads(x);
      const auto cached = grow_cache(heads, state, context);
      gate = gate + attended(heads.q, cached.k, cached.v, cached.visible, context);
    }
    return (*down_)(z * gate.to(z.scalar_type()));
  }

 private:
  // z1 [B, N, f/2], and LN(z2) by groups [B, G, N, f/2G], zero at padded tokens.
  std::pair<Tensor, Tensor> halves(const Tensor& x, const Tensor& keep) const {
    const auto z = at::gelu((*up_)(x)).chunk(2, -1);
    return {z[0], split_heads(zero_where_padded((*norm_)(z[1]), keep), config_.groups)};
  }

  // W z for all tokens: z [B, G, N, f/2G].
  Tensor multiplied(const Tensor& z, bool causal) const {
    const int64_t n = z.size(2);
    const auto upto = [&](const Tensor& scale) { return scale.narrow(1, 0, n).unsqueeze(-1); };
    if (config_.spatial == Spatial::full) {
      const auto w = spatial_.narrow(1, 0, n).narrow(2, 0, n);
      return (causal ? w.tril() : w).matmul(z);
    }
    const bool lower = config_.spatial == Spatial::lower_toeplitz;
    const auto w = windows(n, causal).to(z.scalar_type());
    const auto y = w.matmul(lower ? upto(column_scale_) * z : z).flip(2);
    return lower ? upto(row_scale_) * y : y;
  }

  // Rows of a causal W at the places t [B, T]: [G, B, T, keys].
  Tensor rows_of_w(const Tensor& t, int64_t keys) const {
    const auto picked = [&](const Tensor& table, const Tensor& index) {
      return table.index_select(1, index.flatten()).unflatten(1, t.sizes());
    };
    if (config_.spatial == Spatial::full) {
      const auto future = at::arange(keys, t.options()) > t.unsqueeze(-1);
      return picked(spatial_.narrow(2, 0, keys), t).masked_fill(future, 0);
    }
    const auto w = picked(windows(keys, true), (keys - 1 - t).clamp_min(0));
    if (config_.spatial == Spatial::toeplitz) return w.to(spatial_.scalar_type());
    const auto columns = column_scale_.narrow(1, 0, keys).unsqueeze(1).unsqueeze(1);
    return (w * picked(row_scale_, t).unsqueeze(-1) * columns).to(spatial_.scalar_type());
  }

  // W_tj = w_(t-j), its last row first: [G, N, N], a view of 2 N - 1 taps, of which row s begins at
  // tap s. In float32 at least, because the gradient of a tap is a sum over all rows.
  Tensor windows(int64_t n, bool causal) const {
    const auto all = spatial_.to(wide(spatial_));
    const auto zeros = [&](const Tensor& past) { return at::constant_pad_nd(past, {0, n - 1}); };
    if (config_.spatial == Spatial::lower_toeplitz)
      return zeros(all.narrow(1, longest_ - n, n)).unfold(1, n, 1);
    const auto taps = all.narrow(1, longest_ - n, 2 * n - 1).flip(1);  // N - 1 .. 1 - N
    return (causal ? zeros(taps.narrow(1, 0, n)) : taps).unfold(1, n, 1);
  }

  // sum_j w_(t-j) z_j by FFT; taps are those of the distances 1 - N .. N - 1.
  Tensor convolved(const Tensor& z, bool causal) const {
    const int64_t n = z.size(2);
    const auto taps = spatial_.narrow(1, longest_ - n, 2 * n - 1).unsqueeze(-1);
    const auto past = taps.narrow(1, n - 1, n);
    return fft_convolution(z, past, causal ? Tensor() : taps.narrow(1, 0, n - 1).flip(1));
  }

  Heads attention_heads(const Tensor& x) const {
    return {split_heads((*query_)(x), 1), split_heads((*key_)(x), 1), split_heads((*value_)(x), 1),
            x, x};
  }
  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                  Context& context) const {
    const double scale = 1 / std::sqrt(static_cast<double>(config_.attention));
    return (*attention_output_)(
        merge_heads(softmax_read(q * scale, k, v, visible, {.path = path_}, context)));
  }

  Config config_;
  int64_t longest_, half_;
  std::string path_;
  std::shared_ptr<Linear> up_, down_, query_, key_, value_, attention_output_;
  std::shared_ptr<LayerNorm> norm_;
  Tensor spatial_, bias_, row_scale_, column_scale_;
};

void check(const Config& c, const Site& site) {
  const int64_t half = gated_channels(c, site);
  require_option(c.width % 2 == 0, "width", c10::str("is ", c.width, ", but it is halved"),
                 "take an even number");
  require_option(
      half % c.groups == 0, "groups",
      c10::str("is ", c.groups, ", but ", half, " gated channels do not divide into so many"),
      "take a divisor of the gated channels");
}

Promises promises(const Config& c) {
  return {.future = c.spatial == Spatial::toeplitz ? Future::rounded : Future::exact,
          .decode = true,
          .positional = true,
          .time = 2,
          .memory = 2};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Gmlp>(site, c);
}

}  // namespace

Mechanism gmlp_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "gmlp",
       .family = "fixed mixing",
       .paper = "arXiv:2105.08050",
       .cost = "O(N^2 f)",
       .summary = "A learned matrix over positions gates half of one feed-forward layer.",
       .exact = "a feed-forward layer at W = 0, b = 1; never softmax",
       .variants = {{"groups", "{groups: 4}"},
                    {"toeplitz", "{spatial: toeplitz, dense_below: 1000}"},
                    {"toeplitz_fft", "{spatial: toeplitz, groups: 2, dense_below: 0}"},
                    {"lower_toeplitz", "{spatial: lower_toeplitz}"},
                    {"attention", "{attention: 8, width: 40}"}}},
      promises, make, check);
  row.block = [](BlockConfig& config, const Node&) {
    config.feed_forward.kind = FeedForwardKind::none;
  };
  return row;
}

}  // namespace longbow
