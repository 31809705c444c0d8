// Lite Transformer, long-short range attention (Wu et al., 2020, arXiv:2004.11886): the channels
// are split; the first ones go through softmax attention and see far, the others through a
// convolution and see near:
//   y = [softmax attention(x_g), O conv(z)],   z = GLU(U x_l),   zero at padded tokens,
//   conv(z)_t = sum_j a_j z_{t + j - P},   K taps a,   P = (K - 1) div 2, or K - 1 when causal.
// The taps (Wu et al., 2019, arXiv:1901.10430) are free ones for each channel (plain), a softmax
// shared by the channels of a head (light), or such a softmax predicted from z_t (dynamic).
// In every form the convolution is a banded N x N matrix; with K = 1 a softmax tap is 1.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

enum class Form { plain, light, dynamic };
constexpr std::array<std::string_view, 3> names_of(Form) {
  return {"plain", "light", "dynamic"};
}

struct Config {
  Form form = Form::dynamic;
  int64_t kernel = 15;
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
    "taps: free for each channel; one set for each head; or predicted from each token");
  v("kernel", c.kernel, "taps of the convolution, K; by layer with per_layer", range(1, 65536));
  v("attention_width", c.attention_width,
    "channels that go through attention; 0 = half of the model's", at_least(0));
  v("conv_heads", c.conv_heads,
    "heads of the light and dynamic convolution; 0 = as many as the attention has", at_least(0));
  v("glu", c.glu, "a gated linear unit before the convolution; false: a projection");
  v("weight_softmax", c.weight_softmax, "light and dynamic: the taps of a head sum to one");
  v("renorm", c.renorm, "the softmax runs over those taps only that fall on real tokens");
  v("dropout", c.dropout, "rate on the attention weights; above 0, training stores all of them",
    range(0, 0.99));
  v("kernel_dropout", c.kernel_dropout, "rate on the taps", range(0, 0.99));
}

// y_t = sum_j a_tj z_{t+j} with its own taps for each token, by blocks of T tokens: within a block
// that is a product with a band matrix [T, T + K - 1], the same for all channels of a head.
// z [B, N + K - 1, L], taps [B or 1, H, N, K] -> [B, N, L].
Tensor banded_product(const Tensor& z, const Tensor& taps) {
  constexpr int64_t kLeast = 16;
  const int64_t n = taps.size(2), k = taps.size(3), block = std::min(n, std::max(k, kLeast));
  const int64_t blocks = (n + block - 1) / block, missing = blocks * block - n,
                span = block + k - 1;
  // Rows of length T + K, read as rows of length T + K - 1: each begins one column further right.
  const auto band = at::constant_pad_nd(taps, {0, block, 0, missing})
                        .unflatten(2, {blocks, block})
                        .flatten(-2)
                        .narrow(-1, 0, block * span)
                        .unflatten(-1, {block, span});  // [B, H, N/T, T, T + K - 1]
  const auto windows = split_heads(at::constant_pad_nd(z, {0, 0, 0, missing}), taps.size(1))
                           .unfold(2, span, block);  // [B, H, N/T, L/H, T + K - 1]
  return merge_heads(band.matmul(windows.transpose(-2, -1)).flatten(2, 3).narrow(2, 0, n));
}

// The same with one set of taps for all tokens, [1, H, 1, K]: a depthwise convolution.
Tensor depthwise_product(const Tensor& z, const Tensor& taps) {
  const int64_t heads = taps.size(1), k = taps.size(3), channels = z.size(2);
  const auto kernel =
      taps.view({heads, 1, k}).expand({heads, channels / heads, k}).reshape({channels, 1, k});
  return at::conv1d(z.transpose(1, 2), kernel, {}, 1, at::IntArrayRef(0), 1, channels)
      .transpose(1, 2);
}

class Lite : public MixerImpl {
 public:
  Lite(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        far_(config.attention_width > 0 ? config.attention_width : site.shape.width / 2),
        near_(site.shape.width - far_),
        conv_heads_(config.form == Form::plain ? near_
                    : config.conv_heads > 0    ? config.conv_heads
                                               : site.shape.heads) {
    check_widths(site.shape);
    Site half = site.at("attention"), unbiased = site;
    half.shape.width = far_;
    unbiased.bias = false;
    const auto softmax =
        Node::map({{"name", Node::string("softmax")}, {"dropout", Node::number(config.dropout)}});
    attention_ = register_module("attention", make_mixer(softmax, half));
    input_ = linear(site, "input", near_, config.glu ? 2 * near_ : near_);
    output_ = linear(site, "output", near_, near_);
    const int64_t k = config.kernel;
    if (config.form == Form::dynamic)
      predicted_ = linear(unbiased, "taps", near_, conv_heads_ * k);
    else
      taps_ = parameter("taps", initial_uniform(site, "taps", {conv_heads_, k}, bound()));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& mask = context.mask;
    const int64_t k = config_.kernel, n = x.size(1), left = mask.causal ? k - 1 : (k - 1) / 2;
    const auto z = gated(x, mask.keep);  // [B, N, L]
    const auto around = [&](const Tensor& rows) {
      return at::constant_pad_nd(rows, {0, 0, left, k - 1 - left});  // [B, N + K - 1, L]
    };
    Tensor visible;
    if (config_.renorm) {
      const auto real =
          mask.keep.defined() ? mask.keep : at::ones({1, n}, x.options().dtype(at::kBool));
      visible = around(real.unsqueeze(-1)).transpose(1, 2).unfold(2, k, 1);  // [B or 1, 1, N, K]
    }
    return joined((*attention_)(x.narrow(2, 0, far_), context),
                  convolved(around(z), taps(z, visible, context)));
  }

  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    attention_->start(state.child["attention"], lanes, capacity, context);
    state.add("rows", {lanes, config_.kernel - 1, near_},
              output_->weight.options().requires_grad(false));
  }

  // The lane holds the last K - 1 real rows; in an extension padded rows stand behind the real.
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto& keep = context.mask.keep;
    const int64_t past = config_.kernel - 1;
    auto& last = state.lane.at("rows");
    const auto z = gated(x, keep);
    const auto rows = at::cat({last, z.to(last.scalar_type())}, 1);  // [B, K - 1 + T, L]
    const auto options = context.positions.options();
    const auto count =
        keep.defined() ? keep.sum(1, true) : at::full({x.size(0), 1}, x.size(1), options);
    const auto index = count + at::arange(past, options);  // [B, K - 1]
    last = rows.gather(1, index.unsqueeze(-1).expand({-1, -1, near_}));
    Tensor visible;
    if (config_.renorm)
      visible = context.positions.unsqueeze(1).unsqueeze(-1) >= at::arange(past, -1, -1, options);
    return joined(attention_->extend(x.narrow(2, 0, far_), state.child.at("attention"), context),
                  convolved(rows, taps(z, visible, context)));
  }

 private:
  // Zero after the gate: the bias of U would fill padded places again.
  Tensor gated(const Tensor& x, const Tensor& keep) const {
    const auto u = (*input_)(x.narrow(2, far_, near_));
    const auto z = config_.glu ? at::glu(u, -1) : u;
    return keep.defined() ? z.masked_fill(keep.logical_not().unsqueeze(-1), 0) : z;
  }

  // [B or 1, H, N or 1, K], float32 at least.
  Tensor taps(const Tensor& z, const Tensor& visible, const Context& context) const {
    auto a =
        predicted_ ? split_heads((*predicted_)(z), conv_heads_) : taps_.unsqueeze(0).unsqueeze(2);
    a = normalised() ? masked_softmax(a, visible) : a.to(wide(a));
    return dropout(a, config_.kernel_dropout, is_training(), context, path_ + ".kernel_dropout");
  }

  Tensor convolved(const Tensor& z, const Tensor& taps) const {
    const auto rows = z.to(taps.scalar_type());
    const bool by_token = predicted_ || config_.renorm;
    return by_token ? banded_product(rows, taps) : depthwise_product(rows, taps);
  }

  Tensor joined(const Tensor& far, const Tensor& near) const {
    return at::cat({far, (*output_)(near.to(far.scalar_type()))}, -1);
  }

  bool normalised() const { return config_.form != Form::plain && config_.weight_softmax; }
  // Xavier uniform; a plain tap has one channel at either end.
  double bound() const {
    const auto k = static_cast<double>(config_.kernel), heads = static_cast<double>(conv_heads_);
    return std::sqrt(6 / (k * (config_.form == Form::plain ? 2 : 1 + heads)));
  }

  void check_widths(const Shape& shape) const {
    TORCH_CHECK(far_ > 0 && near_ > 0, "lite: ", far_, " of ", shape.width,
                " channels go to attention, but both halves need some");
    TORCH_CHECK(shape.head_width > 0 || far_ % shape.heads == 0, "lite: ", far_,
                " channels of attention do not divide among ", shape.heads, " heads");
    TORCH_CHECK(near_ % conv_heads_ == 0, "lite: ", near_,
                " channels of convolution do not divide among ", conv_heads_, " heads");
    TORCH_CHECK(!config_.renorm || normalised(),
                "lite: renorm is over a softmax, but these taps have none");
  }

  Config config_;
  std::string path_;
  int64_t far_, near_, conv_heads_;  // channels of attention; L, of convolution; H
  Mixer attention_;
  std::shared_ptr<Linear> input_, output_, predicted_;
  Tensor taps_;  // [H, K]
};

Promises promises(const Config& c) {
  return {.future = Future::exact,
          .decode = true,
          .positional = true,
          .time = 2,
          .memory = c.dropout > 0 ? 2.0 : 1.0};
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
                    {"point", "{kernel: 1}"}}},
      promises, make);
}

}  // namespace longbow
