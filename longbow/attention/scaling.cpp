// Scaling Transformers (Jaszczur et al., 2021, arXiv:2111.12763): attention whose projections are
// sparse. Channels are S modules of M = C / S. One multiplicative layer,
//   u_sm = sum_i x_i D_si E_im + b_sm,
// and a convolution over positions and modules for each of queries, keys and values,
//   q = conv(u), k = conv(u) with F x F taps, v = conv(u) with F x 1,   M -> M channels,
// then softmax attention, without an output projection. The block's feed-forward layer is sparse
// (nn/feed_forward.h), and `residual: reversible` is the paper's residual.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/past_rows.h"
#include "longbow/nn/softmax/exact_attention.h"
#include "longbow/ops/affine.h"

namespace longbow {
namespace {

enum class Projections { multiplicative_conv, multiplicative };
constexpr std::array<std::string_view, 2> names_of(Projections) {
  return {"multiplicative_conv", "multiplicative"};
}

struct Config {
  Projections projections = Projections::multiplicative_conv;
  int64_t modules = 0, length = 3, across = 3;
  bool output = false, sparse_feed_forward = true;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("projections", c.projections,
    "one multiplicative layer and three convolutions, or three multiplicative layers");
  v("modules", c.modules, "S; 0 = the divisor of the width that is nearest to its root",
    at_least(0));
  v("length", c.length, "taps over positions", range(1, 65536));
  v("across", c.across, "taps over modules of queries and keys; odd", range(1, 65535));
  v("output", c.output, "an output projection, which the paper leaves out");
  v("sparse_feed_forward", c.sparse_feed_forward,
    "the block's feed-forward layer is sparse, regardless of block.feed_forward_kind");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

int64_t nearest_divisor(int64_t width) {
  const double root = std::sqrt(static_cast<double>(width));
  int64_t best = 1;
  for (int64_t s = 1; s <= width; ++s)
    if (width % s == 0 &&
        std::abs(static_cast<double>(s) - root) < std::abs(static_cast<double>(best) - root))
      best = s;
  return best;
}

// y = x W^T + b with W[(s, m), i] = D_si E_im: any permutation of channels, with C (S + M) numbers.
class Multiplicative : public Part {
 public:
  Multiplicative(const Site& site, int64_t width, int64_t modules) {
    constexpr double kDeviation = 0.5;
    modules_ = parameter("modules", initial_normal(site, "modules", {modules, width}, kDeviation));
    const int64_t each = width / modules;
    const double bound = std::sqrt(6.0 / static_cast<double>(width + each));  // Glorot
    channels_ = parameter("channels", initial_uniform(site, "channels", {width, each}, bound));
    if (site.bias) bias_ = parameter("bias", at::zeros({width}), {.decay = false});
  }
  Tensor operator()(const Tensor& x) const {
    const auto w = modules_.unsqueeze(1) * channels_.t().unsqueeze(0);  // [S, M, C]
    return at::linear(x, w.flatten(0, 1), bias_);
  }

 private:
  Tensor modules_, channels_, bias_;  // D [S, C], E [C, M], [C]
};

// The rows of u seen as an image of positions and modules with M channels.
class Convolution : public Part {
 public:
  Convolution(const Site& site, int64_t modules, int64_t each, int64_t length, int64_t across)
      : modules_(modules) {
    const double fan = static_cast<double>(each * length * across);
    weight_ = parameter("weight", initial_uniform(site, "weight", {each, each, length, across},
                                                  std::sqrt(3.0 / fan)));
    if (site.bias) bias_ = parameter("bias", at::zeros({each}), {.decay = false});
  }
  // rows [B, F - 1 + N, C] with what stands before and behind them -> [B, N, C].
  Tensor operator()(const Tensor& rows) const {
    const auto image = rows.unflatten(-1, {modules_, -1}).permute({0, 3, 1, 2});  // [B, M, N, S]
    const int64_t padding[] = {0, weight_.size(3) / 2};
    return at::conv2d(image, weight_, bias_, 1, padding).permute({0, 2, 3, 1}).flatten(-2);
  }

  // The same as one product with F rows beside each other: [C, F C], zero between modules that are
  // too far apart. On a GPU it takes a fraction of the time for several times the operations.
  Tensor matrix() const {
    const int64_t each = weight_.size(0), length = weight_.size(2), across = weight_.size(3);
    const int64_t line = modules_ + across;
    // Rows of length S + A, read as rows of length S + A - 1: each begins one module further right.
    const auto band =
        at::constant_pad_nd(weight_.permute({3, 2, 0, 1}).flatten(1), {0, 0, 0, modules_})
            .expand({modules_, line, -1})
            .flatten(0, 1)
            .narrow(0, 0, modules_ * (line - 1))
            .view({modules_, line - 1, length, each, each})
            .narrow(1, across / 2, modules_);  // [S, S from, F, M, M from]
    return band.permute({0, 3, 2, 1, 4}).reshape({modules_ * each, length * modules_ * each});
  }
  Tensor bias() const { return bias_.defined() ? bias_.repeat({modules_}) : bias_; }

 private:
  int64_t modules_;
  Tensor weight_, bias_;
};

class Scaling : public MixerImpl {
 public:
  Scaling(const Site& site, const Config& config)
      : config_(config), heads_(site.shape.heads), width_(site.shape.width) {
    const int64_t modules = config.modules > 0 ? config.modules : nearest_divisor(width_);
    Site whole = site.at("attention");
    whole.shape.head_width = width_ / heads_;
    attention_ =
        register_module("attention", std::make_shared<ExactAttention>(whole, config.dropout));
    const bool shared = config.projections == Projections::multiplicative_conv;
    const char* const names[] = {"query", "key", "value"};
    for (int i = 0; i < (shared ? 1 : 3); ++i) {
      const std::string name = shared ? "shared" : names[i];
      multiplicative_[i] =
          register_module(name, std::make_shared<Multiplicative>(site.at(name), width_, modules));
    }
    for (int i = 0; shared && i < 3; ++i)
      convolution_[i] = register_module(
          names[i], std::make_shared<Convolution>(site.at(names[i]), modules, width_ / modules,
                                                  config.length, i == 2 ? 1 : config.across));
    if (config.output) output_ = linear(site, "output", width_, width_);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& mask = context.mask;
    const int64_t past = config_.length - 1, before = mask.causal ? past : past / 2;
    const auto around = [&](const Tensor& u) {
      return at::constant_pad_nd(u, {0, 0, before, past - before});
    };
    return merged(attention_->attend(projected(x, mask.keep, around), context));
  }

  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    const auto options = multiplicative_[0]->parameters().front().options().requires_grad(false);
    const auto none = at::zeros({lanes, heads_, 0, width_ / heads_}, options);
    attention_->open(state, {none, none, none, {}, {}}, capacity, context);
    if (convolution_[0]) open_past_rows(state, "rows", lanes, config_.length - 1, width_, options);
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto heads = projected(x, context.mask.keep, [&](const Tensor& u) {
      return grow_past_rows(state, "rows", u, context);
    });
    return merged(attention_->grow(heads, state, context));
  }

 private:
  // Padded rows of u are zero before the convolution; `around` adds what stands beside the rows.
  template <class F>
  Heads projected(const Tensor& x, const Tensor& keep, const F& around) const {
    const auto split = [&](const Tensor& y) { return split_heads(y, heads_); };
    if (!convolution_[0])
      return {split((*multiplicative_[0])(x)), split((*multiplicative_[1])(x)),
              split((*multiplicative_[2])(x)), x, x};
    const auto rows = around(zero_where_padded((*multiplicative_[0])(x), keep));
    const bool half = x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
    if (x.is_cuda() && half) {
      const auto parts = convolved(rows, x.size(1));
      return {split(parts[0]), split(parts[1]), split(parts[2]), x, x};
    }
    return {split((*convolution_[0])(rows)), split((*convolution_[1])(rows)),
            split((*convolution_[2])(rows)), x, x};
  }

  // All three convolutions as one product.
  std::vector<Tensor> convolved(const Tensor& rows, int64_t tokens) const {
    std::vector<Tensor> shifted, matrices, biases;
    for (int64_t f = 0; f < config_.length; ++f) shifted.push_back(rows.narrow(1, f, tokens));
    for (const auto& convolution : convolution_) {
      matrices.push_back(convolution->matrix());
      if (const auto bias = convolution->bias(); bias.defined()) biases.push_back(bias);
    }
    return affine(at::cat(shifted, -1), at::cat(matrices),
                  biases.empty() ? Tensor() : at::cat(biases))
        .split(width_, -1);
  }

  Tensor merged(const Tensor& heads) const {
    const auto y = merge_heads(heads);
    return output_ ? (*output_)(y) : y;
  }

  Config config_;
  int64_t heads_, width_;
  std::shared_ptr<ExactAttention> attention_;
  std::shared_ptr<Multiplicative> multiplicative_[3];
  std::shared_ptr<Convolution> convolution_[3];
  std::shared_ptr<Linear> output_;
};

void check(const Config& c, const Site& site) {
  const auto& shape = site.shape;
  require_option(c.modules == 0 || shape.width % c.modules == 0, "modules",
                 c10::str("is ", c.modules, ", which does not divide the width ", shape.width),
                 "take a divisor of the width, or 0 to have one chosen");
  require_option(
      shape.width % shape.heads == 0, "",
      c10::str("cannot divide the width ", shape.width, " among ", shape.heads, " heads"),
      "take a width that is a multiple of the heads");
  require_option(c.across % 2 == 1, "across",
                 c10::str("is ", c.across, ", but taps over modules have a middle"),
                 "take an odd number");
}

Promises promises(const Config& c) {
  return {.future = Future::exact,
          .decode = true,
          .positional = c.projections == Projections::multiplicative_conv,
          .time = 2};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Scaling>(site, c);
}

}  // namespace

Mechanism scaling_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "scaling",
       .family = "exact",
       .paper = "arXiv:2111.12763",
       .cost = "O(N^2 C)",
       .summary = "Softmax attention with sparse projections, and a sparse feed-forward layer.",
       .exact = "softmax attention of its projections; one tap: projections by dense matrices",
       .variants = {{"modules", "{modules: 4, length: 4, across: 1, output: true}"},
                    {"multiplicative", "{projections: multiplicative}"}}},
      promises, make, check);
  row.block = [](BlockConfig& config, const Node& options) {
    if (read<Config>(options, "scaling").sparse_feed_forward)
      config.feed_forward.kind = FeedForwardKind::sparse;
  };
  return row;
}

}  // namespace longbow
