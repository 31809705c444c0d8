// Mega (Ma et al., 2022, arXiv:2209.10655): one head of gated attention whose queries, keys and
// gates come from a moving average over the tokens,
//   x^ = LN(x),  m = average(x^),  v = SiLU(W_v x^),
//   u = sigmoid(W_u m),  (z, r) = SiLU(W_zr m),  q = z g_0 + o_0,  k = z g_1 + o_1,
//   o_i = sum_j f(q_i . k_j + bias_{j-i}) v_j      within chunks of `chunk` tokens,
//   y = x + u (SiLU(W_c m + W_h (o r)) - x).
// f is a softmax, or the pointwise Laplace function or squared relu of scores that are divided by
// the number of keys. The last line gates the tokens as they are before the norm, so this mixer has
// the norm itself, and returns y - x. Chunks see each other through the average alone.
#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/attention/mega/moving_average.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/ops/affine.h"
#include "longbow/ops/chunk_weights.h"
#include "longbow/ops/silu_heads.h"
#include "longbow/ops/token_gates.h"

namespace longbow {
namespace {

enum class Function { softmax, laplace, relu2 };
constexpr std::array<std::string_view, 3> names_of(Function) {
  return {"softmax", "laplace", "relu2"};
}

enum class Bias { simple, rotary };
constexpr std::array<std::string_view, 2> names_of(Bias) {
  return {"simple", "rotary"};
}

struct Config {
  int64_t chunk = 128, hidden = 0, shared = 64, components = 16;
  Function function = Function::softmax;
  Bias bias = Bias::simple;
  bool bidirectional = true, norm = true;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("chunk", c.chunk, "tokens that attend to each other; 0 = all", range(0, 65536));
  v("hidden", c.hidden, "E, the width of values; 0 = twice the model's", at_least(0));
  v("shared", c.shared, "the width of queries and keys", range(1, 65536));
  v("components", c.components, "of the moving average of each channel", range(1, 65536));
  v("function", c.function, "what turns scores into weights");
  v("bias", c.bias, "of a distance: learned one by one, or the product of two rotated vectors");
  v("bidirectional", c.bidirectional,
    "average later tokens too, with parameters of their own, where the mask is not causal");
  v("norm", c.norm, "normalise the input here, as pre-norm blocks do; false for other blocks");
  v("dropout", c.dropout, "rate on the average, the weights and the candidates", range(0, 0.99));
}

Tensor laplace(const Tensor& a) {
  constexpr double mean = 0.707107, deviation = 0.282095;  // sqrt(1/2), sqrt(1/(4 pi)) as published
  return (1 + at::erf((a - mean) / (deviation * std::numbers::sqrt2))) / 2;
}

class Mega : public MixerImpl {
 public:
  Mega(const Site& site, const Config& config)
      : config_(config),
        width_(site.shape.width),
        hidden_(config.hidden > 0 ? config.hidden : 2 * site.shape.width),
        longest_(config.chunk > 0 ? config.chunk : site.shape.max_length),
        path_(site.path) {
    const int64_t shared = config.shared;
    if (config.norm) norm_ = register_module("norm", std::make_shared<LayerNorm>(width_));
    average_ = register_module(
        "average", std::make_shared<MovingAverage>(site.at("average"), config.components,
                                                   config.bidirectional));
    value_ = linear(site, "value", width_, hidden_);
    gates_ = linear(site, "gates", width_, 2 * width_ + shared + hidden_);
    output_ = linear(site, "output", hidden_, width_);
    constexpr double kDeviation = 0.02;
    const Hint free = {.decay = false};
    gain_ = parameter("gain", initial_normal(site, "gain", {2, shared}, kDeviation), free);
    offset_ = parameter("offset", at::zeros({2, shared}), free);
    if (config.bias == Bias::rotary) {
      bias_ = parameter("bias", initial_normal(site, "bias", {2, shared}, kDeviation), free);
    } else {
      TORCH_CHECK(longest_ > 0, "mega: bias: simple without chunks needs max_length");
      bias_ = parameter("bias", initial_normal(site, "bias", {2 * longest_ - 1}, kDeviation), free);
    }
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto given = normed(x);
    return gated(x, given, (*average_)(given, context.mask), context, [&](const Heads& heads) {
      const int64_t n = x.size(1), chunk = config_.chunk > 0 ? std::min(config_.chunk, n) : n;
      const int64_t chunks = (n + chunk - 1) / chunk, missing = chunks * chunk - n;
      const auto in_chunks = [&](const Tensor& rows) {  // [B, 1, N, ..] -> [B, 1, N/T, T, ..]
        return (missing > 0 ? at::constant_pad_nd(rows, {0, 0, 0, missing}) : rows)
            .unflatten(2, {chunks, chunk});
      };
      const bool whole = missing == 0 && !context.mask.keep.defined() && !context.maps;
      const auto q = heads.q.squeeze(1);
      if (whole && config_.function == Function::softmax && has_chunk_kernel(q, chunk)) {
        const auto weights = chunk_weights(q, heads.k.squeeze(1), by_distance(chunk), chunk,
                                           scale(), context.mask.causal);
        return weighed(weights.unsqueeze(1), in_chunks(heads.v), context).flatten(2, 3);
      }
      const auto bias = by_distance(chunk).unfold(0, chunk, 1).flip(0);  // [i, j]
      const auto o = read(in_chunks(heads.q), in_chunks(heads.k), in_chunks(heads.v), bias,
                          visible(context.mask, missing, chunks, chunk, x), context);
      return missing > 0 ? o.flatten(2, 3).narrow(2, 0, n) : o.flatten(2, 3);
    });
  }

  // The components of the average, and the keys and values of the chunk.
  void open(State& state, int64_t lanes, int64_t capacity, Context&) override {
    average_->start(state, lanes);
    const auto options = gain_.options().requires_grad(false);
    const int64_t size = config_.chunk > 0 ? std::min(config_.chunk, capacity) : capacity;
    open_ring(state,
              {.k = at::zeros({lanes, 1, 0, config_.shared}, options),
               .v = at::zeros({lanes, 1, 0, hidden_}, options)},
              std::max<int64_t>(size, 1));
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto given = normed(x);
    const auto sees = [this](const Tensor& i, const Tensor& j) {
      const int64_t chunk = config_.chunk;
      return chunk > 0 ? i.floor_divide(chunk) == j.floor_divide(chunk) : j <= i;
    };
    return gated(x, given, average_->extend(given, state, context), context, [&](const Heads& all) {
      const int64_t size = ring_size(state);
      return in_pieces(all, context, size, [&](const Heads& heads, Context& inner) {
        const auto recent = pass_ring(heads, state, sees, inner);
        const auto distance = recent.places - inner.positions.unsqueeze(1).unsqueeze(-1);
        const auto place = distance.clamp(1 - size, size - 1) + (size - 1);
        const auto bias = by_distance(size).index({place});  // [B, 1, T, S]
        return read(heads.q, recent.k, recent.v, bias, recent.visible, inner);
      });
    });
  }

 private:
  Tensor normed(const Tensor& x) const { return norm_ ? (*norm_)(x) : x; }
  Tensor dropped(const Tensor& x, const Context& context, const std::string& what) const {
    return dropout(x, config_.dropout, is_training(), context, path_ + what);
  }

  // y - x; attend gives o [B, 1, N, E] of one head.
  template <class F>
  Tensor gated(const Tensor& x, const Tensor& given, const Tensor& average, const Context& context,
               const F& attend) const {
    const auto parts = affine_parts(dropped(average, context, ".average.dropout"), gates_->weight,
                                    gates_->bias, {width_, config_.shared, hidden_, width_});
    const auto heads = silu_heads(parts[1], gain_, offset_);
    const auto v = at::silu((*value_)(given)).unsqueeze(1);
    const auto o = attend(Heads{heads[0].unsqueeze(1), heads[1].unsqueeze(1), v, x, x}).squeeze(1);
    const auto added = (*output_)(silu_product(o, parts[2]));
    if (config_.dropout == 0 || !is_training()) return gated_step(x, parts[0], parts[3], added);
    const auto candidate = at::silu(parts[3] + added);
    return parts[0].sigmoid() * (dropped(candidate, context, ".candidate.dropout") - x);
  }

  // Which keys the queries of a chunk see, [B or 1, 1, N/T, 1, T] or, causal, for each query;
  // undefined: all.
  static Tensor visible(const Mask& mask, int64_t missing, int64_t chunks, int64_t chunk,
                        const Tensor& x) {
    const auto options = x.options().dtype(at::kBool);
    Tensor real = mask.keep;
    if (!real.defined() && missing > 0) real = at::ones({1, x.size(1)}, options);
    if (real.defined())
      real = at::constant_pad_nd(real, {0, missing}).view({-1, 1, chunks, 1, chunk});
    if (!mask.causal) return real;
    const auto past = at::ones({chunk, chunk}, options).tril();
    return real.defined() ? real.logical_and(past) : past;
  }

  // q, k and v with more dimensions in front; bias broadcasts over them, and so does what is
  // visible, all if it is undefined.
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
              const Tensor& visible, Context& context) const {
    const auto type = wide(q);
    const auto scores = q.to(type).matmul(k.to(type).transpose(-2, -1));
    Tensor weights;
    if (config_.function == Function::softmax) {
      weights = masked_softmax(at::add(bias, scores, scale()), visible);
    } else {
      const auto keys = static_cast<double>(scores.size(-1));
      const auto each =
          visible.defined() ? scores / visible.sum(-1, true).clamp_min(1) : scores / keys;
      const auto a = each + bias;
      weights = config_.function == Function::laplace ? laplace(a) : a.relu().square();
      if (visible.defined()) weights = weights.masked_fill(visible.logical_not(), 0);
    }
    if (context.maps) (*context.maps)[path_] = weights.detach();
    return weighed(weights, v, context);
  }
  Tensor weighed(const Tensor& weights, const Tensor& v, const Context& context) const {
    return dropped(weights, context, ".dropout").to(v.scalar_type()).matmul(v);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(config_.shared)); }

  // Biases of the distances j - i = 1 - n .. n - 1, in float32 at least. Rotated vectors: with
  // complex a and b, Re(conj(a e^(i w t)) b e^(i w s)) = Re(conj(a) b e^(i w (s - t))).
  Tensor by_distance(int64_t n) const {
    const auto bias = bias_.to(wide(bias_));
    if (config_.bias == Bias::simple) {
      TORCH_CHECK(n <= longest_, "mega: ", n, " tokens, but max_length is ", longest_);
      return bias.narrow(0, longest_ - n, 2 * n - 1);
    }
    const int64_t planes = config_.shared / 2;
    const auto a = bias[0].view({2, planes}), b = bias[1].view({2, planes});
    const auto base = at::arange(planes, bias.options()) / static_cast<double>(planes);
    const auto angle = at::arange(1 - n, n, bias.options()).unsqueeze(1) * at::pow(10000.0, -base);
    return ((a[0] * b[0] + a[1] * b[1]) * angle.cos() - (a[0] * b[1] - a[1] * b[0]) * angle.sin())
        .sum(-1);
  }

  Config config_;
  int64_t width_, hidden_, longest_;
  std::string path_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<MovingAverage> average_;
  std::shared_ptr<Linear> value_, gates_, output_;
  Tensor gain_, offset_, bias_;  // [2, z], [2, z], [2 longest - 1] or [2, z]
};

void check(const Config& c, const Site&) {
  require_option(c.bias != Bias::rotary || c.shared % 2 == 0, "shared",
                 c10::str("is ", c.shared, ", but bias: rotary turns halves of it"),
                 "take an even number");
}

Promises promises(const Config& c) {
  return {.future = Future::rounded,
          .decode = true,
          .positional = true,
          .time = c.chunk > 0 ? 1.1 : 2.0,  // N log N, between one and eight thousand tokens
          .memory = c.chunk > 0 ? 1.0 : 2.0};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Mega>(site, c);
}

}  // namespace

Mechanism mega_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "mega",
       .family = "gated attention",
       .paper = "arXiv:2209.10655",
       .cost = "O(N W (E + Z) + N C log N)",
       .summary = "Gated attention in chunks over a moving average of all tokens.",
       .exact = "chunk >= N: one gated head over all tokens; update gates of 0: the tokens",
       .variants = {{"chunks", "{chunk: 8, shared: 6, hidden: 10, components: 2}"},
                    {"whole", "{chunk: 0, shared: 6, components: 3, bidirectional: false}"},
                    {"laplace", "{function: laplace, bias: rotary, chunk: 8, shared: 6}"},
                    {"relu2", "{function: relu2, norm: false, chunk: 0, shared: 6}"}}},
      promises, make, check);
  row.block = [](BlockConfig& config, const Node& options) {
    config.norms_mixer = !read<Config>(options, "mega").norm;
  };
  return row;
}

}  // namespace longbow
