// Hyena (Poli et al., 2023, arXiv:2302.10866): long convolutions between gates,
//   (x_0, …, x_{O-1}, v) = short(W x + b)      a short convolution of each channel
//   v <- h_o * (x_o v) + d_o x_o v             for o = O - 1 … 1, one long filter each
//   y = V (x_0 v) + c
// where the filters are as long as the sequence: computed by a small network from the lag
// (`implicit`), or learned tap by tap with small ones set to zero (`free`, Fu et al., 2023,
// arXiv:2302.06646). Without a causal mask each has a second filter for later tokens.
#include <ATen/ATen.h>

#include "longbow/attention/hyena/filter.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/short_convolution.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/fft_convolution.h"
#include "longbow/ops/long_convolution.h"

namespace longbow {
namespace {

struct Config {
  int64_t order = 2, taps = 3;
  bool bidirectional = true;
  FilterConfig filter = {};
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("order", c.order, "gates; there is one long filter less", range(2, 16));
  v("taps", c.taps, "of the short convolution", range(1, 1024));
  v("bidirectional", c.bidirectional, "read later tokens too, where the mask is not causal");
  fields(v, c.filter);
  v("dropout", c.dropout, "rate on the taps of the filters", range(0, 0.99));
}

class Hyena : public MixerImpl {
 public:
  Hyena(const Site& site, const Config& config)
      : config_(config), width_(site.shape.width), path_(site.path) {
    const int64_t filters = (config.order - 1) * width_;
    Site wider = site.at("short");
    wider.shape.width = (config.order + 1) * width_;
    input_ = linear(site, "input", width_, wider.shape.width);
    short_ = register_module("short", std::make_shared<ShortConvolution>(wider, config.taps));
    filter_ = register_module(
        "filter", std::make_shared<Filter>(site.at("filter"), filters, config.bidirectional ? 2 : 1,
                                           config.filter));
    skip_ = parameter("skip", initial_normal(site, "skip", {filters}, 1), {.decay = false});
    output_ = linear(site, "output", width_, width_);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    Context flow = {.mask = context.mask};
    flow.mask.causal = context.mask.causal || !config_.bidirectional;
    const auto taps = filters(x.size(1), flow.mask.causal, context);
    const auto parts = (*short_)((*input_)(x), flow);
    const auto ahead = [&](int64_t place) {
      return flow.mask.causal ? Tensor() : taps.ahead[place];
    };
    if (has_long_kernel(x))
      return gated(parts, context, [&](int64_t place, const Tensor& z, const Tensor& skip) {
        return long_convolution(z, taps.past[place], ahead(place), skip);
      });
    return gated(parts.to(wide(x)), context,
                 [&](int64_t place, const Tensor& z, const Tensor& skip) {
                   return convolved(z, taps.past[place], ahead(place)) + skip * z;
                 });
  }

  // What each filter has read so far, and one more slot, for padded tokens.
  void open(State& state, int64_t lanes, int64_t capacity, Context&) override {
    short_->start(state, lanes);
    const auto options = skip_.options().dtype(wide(skip_)).requires_grad(false);
    for (int64_t place = 0; place < config_.order - 1; ++place)
      state.add(history(place), {lanes, 1, capacity + 1, width_}, options);
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const int64_t capacity = state.lane.at(history(0)).size(2) - 1;
    const auto taps = filters(capacity, true, context);
    const auto places = context.positions.clamp_max(capacity - 1);  // of padded tokens
    return gated(short_->extend((*input_)(x), state, context).to(wide(x)), context,
                 [&](int64_t place, const Tensor& z, const Tensor& skip) {
                   auto& lane = state.lane.at(history(place));
                   const auto rows = z.unsqueeze(1);
                   write_slots(lane, slots_of({.k = rows}, context, capacity), rows);
                   const auto past = lane.select(1, 0).narrow(1, 0, capacity);
                   return read(past, taps.past[place], places) + skip * z;
                 });
  }

 private:
  struct Taps {
    std::vector<Tensor> past, ahead;  // [N, C] for each place; the second from lag 1 on
  };
  Taps filters(int64_t lags, bool causal, const Context& context) const {
    const auto all = dropout((*filter_)(lags, causal ? 1 : 2), config_.dropout, is_training(),
                             context, path_ + ".filter.dropout");
    const auto each = all.split(width_, 1);
    const auto half = each.begin() + config_.order - 1;
    return {{each.begin(), half}, {half, each.end()}};
  }

  // `parts` [B, N, (O + 1) C]; convolve(i, z, d) is d z and what filter i makes of z [B, N, C]. The
  // first filter belongs to the last gate.
  template <class F>
  Tensor gated(const Tensor& parts, const Context& context, const F& convolve) const {
    const auto x = parts.split(width_, 2);
    const auto skip = skip_.split(width_);
    auto v = x.back();
    for (int64_t place = 0; place < config_.order - 1; ++place) {
      const auto z = zero_where_padded(x[config_.order - 1 - place] * v, context.mask.keep);
      v = convolve(place, z, skip[place]);
    }
    return (*output_)((x[0] * v).to(output_->weight.scalar_type()));
  }

  // In float64: rounding is relative to the largest token, which may be a later one, and products
  // of gates are far apart in size.
  static Tensor convolved(const Tensor& z, const Tensor& past, const Tensor& ahead) {
    return fft_convolution(z.to(at::kDouble), past, ahead).to(z.scalar_type());
  }

  // sum_l h_l z_{t-l} at the places t [B, T]: one token reads its past directly, several by FFT.
  // What is not written yet is zero.
  static Tensor read(const Tensor& past, const Tensor& taps, const Tensor& places) {
    if (places.size(1) > 1)
      return convolved(past, taps, {})
          .gather(1, places.unsqueeze(-1).expand({-1, -1, past.size(2)}));
    const auto lags = (places - at::arange(past.size(1), places.options())).clamp_min(0);
    return (at::embedding(taps, lags) * past).sum(1, true);
  }

  static std::string history(int64_t place) { return "history" + std::to_string(place); }

  Config config_;
  int64_t width_;
  std::string path_;
  std::shared_ptr<Linear> input_, output_;
  std::shared_ptr<ShortConvolution> short_;
  std::shared_ptr<Filter> filter_;
  Tensor skip_;  // [(O - 1) C]
};

void check(const Config& c, const Site&) {
  require_option(c.filter.features % 2 == 1, "features",
                 c10::str("is ", c.filter.features, ", but waves come in pairs beside the place"),
                 "take an odd number");
  const bool free = c.filter.filter == FilterKind::free;
  require_option(free || c.filter.squash == 0, "squash", "is for filter: free", "leave it out");
}

Promises promises(const Config&) {
  return {.future = Future::rounded,
          .decode = true,
          .positional = true,
          .time = 1.1};  // N log N, between one and eight thousand tokens
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Hyena>(site, c);
}

}  // namespace

Mechanism hyena_mechanism() {
  return over_tokens<Config>(
      {.name = "hyena",
       .family = "long convolution",
       .paper = "arXiv:2302.10866",
       .cost = "O(O N C log N)",
       .summary = "Gates and convolutions with filters as long as the sequence.",
       .exact = "a Toeplitz product; never softmax",
       .variants = {{"order3", "{order: 3, filter_width: 16, features: 7, shift: 0.05}"},
                    {"forward", "{bidirectional: false, filter_width: 16}"},
                    {"free", "{filter: free, squash: 0.01}"}}},
      promises, make, check);
}

}  // namespace longbow
