// Lite Transformer, long-short range attention (Wu et al., 2020, arXiv:2004.11886): the channels
// are split; the first ones go through softmax attention and see far, the others through a
// convolution and see near:
//   y = [softmax attention(x_g), O conv(z)],   z = GLU(U x_l),   zero at padded tokens,
//   conv(z)_t = sum_j a_j z_{t + j - P},   K taps a,   P = (K - 1) div 2, or K - 1 when causal.
// The taps (Wu et al., 2019, arXiv:1901.10430) are free ones for each channel (plain), a softmax
// shared by the channels of a head (light), or such a softmax predicted from z_t (dynamic). In the
// wide form (multi_kernel) z = GLU(x_l), and instead of conv(z) stands the concatenation of
// relu(conv_i(z) + b_i) with free taps of several lengths.
// In every form the convolution is a banded N x N matrix; with K = 1 a softmax tap is 1.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/past_rows.h"
#include "longbow/nn/layers/taps.h"
#include "longbow/nn/softmax/softmax.h"

namespace longbow {
namespace {

enum class Form { plain, light, dynamic, multi_kernel };
constexpr std::array<std::string_view, 4> names_of(Form) {
  return {"plain", "light", "dynamic", "multi_kernel"};
}

struct Config {
  Form form = Form::dynamic;
  int64_t kernel = 15;
  std::vector<int64_t> kernels = {};
  int64_t attention_width = 0;
  int64_t conv_heads = 0;
  bool glu = true;
  bool weight_softmax = true;
  bool renorm = false;
  double dropout = 0, kernel_dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form,
    "taps: free for each channel; one set for each head; predicted from each token; or several "
    "free ones side by side, with relu");
  v("kernel", c.kernel, "taps of the convolution, K; by layer with per_layer", range(1, 65536));
  v("kernels", c.kernels, "multi_kernel: taps of each convolution, in place of kernel",
    range(1, 65536));
  v("attention_width", c.attention_width,
    "channels that go through attention; 0 = half of the model's", at_least(0));
  v("conv_heads", c.conv_heads,
    "heads of the light and dynamic convolution; 0 = as many as the attention has", at_least(0));
  v("glu", c.glu,
    "a gated linear unit before the convolution, or a projection; multi_kernel: the gate alone");
  v("weight_softmax", c.weight_softmax, "light and dynamic: the taps of a head sum to one");
  v("renorm", c.renorm, "the softmax runs over those taps only that fall on real tokens");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
  v("kernel_dropout", c.kernel_dropout, "rate on the taps, or on what several kernels give",
    range(0, 0.99));
}

int64_t attending(const Config& c, const Site& site) {
  return c.attention_width > 0 ? c.attention_width : site.shape.width / 2;
}
int64_t convolving_heads(const Config& c, const Site& site) {
  if (c.form == Form::plain) return site.shape.width - attending(c, site);
  return c.conv_heads > 0 ? c.conv_heads : site.shape.heads;
}
bool normalised(const Config& c) {
  return (c.form == Form::light || c.form == Form::dynamic) && c.weight_softmax;
}

class Lite : public MixerImpl {
 public:
  Lite(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        far_(attending(config, site)),
        near_(site.shape.width - far_),
        conv_heads_(convolving_heads(config, site)),
        past_(config.kernel - 1) {
    Site half = site.at("attention"), unbiased = site;
    half.shape.width = far_;
    unbiased.bias = false;
    const auto softmax =
        Node::map({{"name", Node::string("softmax")}, {"dropout", Node::number(config.dropout)}});
    attention_ = register_module("attention", make_mixer(softmax, half));
    if (config.form == Form::multi_kernel) {
      add_kernels(site);
      return;
    }
    input_ = linear(site, "input", near_, config.glu ? 2 * near_ : near_);
    output_ = linear(site, "output", near_, near_);
    if (config.form == Form::dynamic)
      predicted_ = linear(unbiased, "taps", near_, conv_heads_ * config.kernel);
    else
      taps_ =
          parameter("taps", initial_uniform(site, "taps", {conv_heads_, config.kernel}, bound()));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& mask = context.mask;
    const auto left = [&](int64_t k) { return mask.causal ? k - 1 : (k - 1) / 2; };
    const auto z = gated(x, mask.keep);  // [B, N, L]
    Tensor visible;
    if (config_.renorm) {
      const int64_t k = config_.kernel, before = left(k);
      const auto real =
          mask.keep.defined() ? mask.keep : at::ones({1, x.size(1)}, x.options().dtype(at::kBool));
      visible = at::constant_pad_nd(real, {before, k - 1 - before}).unsqueeze(1).unfold(2, k, 1);
    }
    const auto near = convolved(z, visible, context, [&](const Tensor& taps) {
      return windowed_taps(z, taps, left(taps.size(-1)));
    });
    return joined((*attention_)(x.narrow(2, 0, far_), context), near);
  }

  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    attention_->start(state.child["attention"], lanes, capacity, context);
    open_past_rows(state, "rows", lanes, past_, input_ ? near_ : near_ / 2,
                   output_->weight.options());
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto z = gated(x, context.mask.keep);
    const auto rows = grow_past_rows(state, "rows", z, context);  // [B, past_ + T, L]
    Tensor visible;
    if (config_.renorm)
      visible = context.positions.unsqueeze(1).unsqueeze(-1) >=
                at::arange(past_, -1, -1, context.positions.options());
    const auto near = convolved(z, visible, context, [&](const Tensor& taps) {
      const int64_t older = past_ + 1 - taps.size(-1);
      return taps_over(rows.narrow(1, older, rows.size(1) - older), taps);
    });
    return joined(attention_->extend(x.narrow(2, 0, far_), state.child.at("attention"), context),
                  near);
  }

 private:
  // Zero after the gate: the bias of U would fill padded places again.
  Tensor gated(const Tensor& x, const Tensor& keep) const {
    const auto local = x.narrow(2, far_, near_);
    const auto u = input_ ? (*input_)(local) : local;
    return zero_where_padded(config_.glu ? at::glu(u, -1) : u, keep);
  }

  // `convolve` applies taps to the rows around each token.
  template <class F>
  Tensor convolved(const Tensor& z, const Tensor& visible, const Context& context,
                   const F& convolve) const {
    if (kernels_.empty()) return convolve(taps(z, visible, context));
    std::vector<Tensor> side_by_side;
    for (const auto& [taps, bias] : kernels_)
      side_by_side.push_back((convolve(taps.to(wide(taps))) + bias).relu());
    return dropped(at::cat(side_by_side, -1), context);
  }

  // [H, K], or [B or 1, H, N, K] where tokens have their own; float32 at least.
  Tensor taps(const Tensor& z, const Tensor& visible, const Context& context) const {
    auto a = predicted_ ? split_heads((*predicted_)(z), conv_heads_) : taps_;
    if (visible.defined() && a.dim() == 2) a = a.unsqueeze(0).unsqueeze(2);
    return dropped(normalised(config_) ? masked_softmax(a, visible) : a.to(wide(a)), context);
  }

  Tensor dropped(const Tensor& x, const Context& context) const {
    return dropout(x, config_.kernel_dropout, is_training(), context, path_ + ".kernel_dropout");
  }
  Tensor joined(const Tensor& far, const Tensor& near) const {
    return at::cat({far, (*output_)(near.to(far.scalar_type()))}, -1);
  }

  // Each kernel has a tap for each of the channels that the gate leaves, and a bias.
  void add_kernels(const Site& site) {
    const int64_t width = near_ / 2;
    for (size_t i = 0; i < config_.kernels.size(); ++i) {
      const int64_t k = config_.kernels[i];
      const double bound = 1 / std::sqrt(static_cast<double>(k));
      const auto add = [&](const std::string& name, at::IntArrayRef shape) {
        const auto own = name + "_" + std::to_string(i);
        return parameter(own, initial_uniform(site, own, shape, bound));
      };
      kernels_.push_back({add("taps", {width, k}), add("bias", {width})});
      past_ = i == 0 ? k - 1 : std::max(past_, k - 1);
    }
    output_ = linear(site, "output", width * static_cast<int64_t>(kernels_.size()), near_);
  }

  // Xavier uniform; a plain tap has one channel at either end.
  double bound() const {
    const auto k = static_cast<double>(config_.kernel), heads = static_cast<double>(conv_heads_);
    return std::sqrt(6 / (k * (config_.form == Form::plain ? 2 : 1 + heads)));
  }

  Config config_;
  std::string path_;
  int64_t far_, near_, conv_heads_;  // channels of attention; L, of convolution; H
  int64_t past_;                     // rows that the longest kernel reads before a token
  Mixer attention_;
  std::shared_ptr<Linear> input_, output_, predicted_;
  Tensor taps_;                                     // [H, K]
  std::vector<std::pair<Tensor, Tensor>> kernels_;  // taps [L, K] and bias [L] of each
};

void check_channels(const Config& c, const Site& site) {
  const auto& shape = site.shape;
  const int64_t far = attending(c, site), near = shape.width - far;
  const int64_t heads = convolving_heads(c, site);
  require_option(far > 0 && near > 0, "attention_width",
                 c10::str("gives ", far, " of ", shape.width,
                          " channels to attention, but both halves need some"),
                 "take more than 0 and less than the model's width");
  require_option(shape.head_width > 0 || far % shape.heads == 0, "attention_width",
                 c10::str("gives attention ", far, " channels, which do not divide among ",
                          shape.heads, " heads"),
                 "take a multiple of the heads");
  if (c.form == Form::multi_kernel)
    require_option(near % 2 == 0, "attention_width",
                   c10::str("leaves ", near, " channels to the convolution, which gates by halves"),
                   "leave an even number");
  else
    require_option(near % heads == 0, "conv_heads",
                   c10::str("gives the convolution ", heads, " heads, which do not divide its ",
                            near, " channels"),
                   "take a divisor of its channels");
}

void check(const Config& c, const Site& site) {
  const bool several = c.form == Form::multi_kernel;
  require_option(!several || !c.kernels.empty(), "kernels", "is empty in form: multi_kernel",
                 "write kernels: [3, 5]");
  require_option(several || c.kernels.empty(), "kernels", "is for form: multi_kernel",
                 "leave it out, or set the form");
  require_option(!several || c.glu, "glu", "is false, but form: multi_kernel gates its channels",
                 "leave it out");
  require_option(!c.renorm || normalised(c), "renorm",
                 "is over a softmax, but these taps have none",
                 "set form to light or dynamic, with weight_softmax");
  check_channels(c, site);
}

Promises promises(const Config&) {
  return {.future = Future::exact, .decode = true, .positional = true, .time = 2, .memory = 1};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Lite>(site, c);
}

}  // namespace

Mechanism lite_mechanism() {
  return over_tokens<Config>(
      {.name = "lite",
       .family = "attention and convolution",
       .paper = "arXiv:2004.11886",
       .cost = "O(N^2 C/2 + N K C/2)",
       .summary = "Half of the channels attend, the other half are convolved over neighbours.",
       .exact = "the attention half is softmax, the other a banded matrix; kernel 1: no mixing",
       .variants = {{"plain", "{form: plain}"},
                    {"light", "{form: light, kernel: 4}"},
                    {"light_renorm", "{form: light, renorm: true}"},
                    {"free", "{form: light, weight_softmax: false}"},
                    {"even", "{kernel: 6, weight_softmax: false, glu: false}"},
                    {"renorm", "{kernel: 7, renorm: true}"},
                    {"narrow", "{attention_width: 4, conv_heads: 4, kernel: 31}"},
                    {"point", "{kernel: 1}"},
                    {"multi_kernel", "{form: multi_kernel, kernels: [3, 4, 9]}"}}},
      promises, make, check);
}

}  // namespace longbow
