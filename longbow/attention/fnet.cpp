// FNet (Lee-Thorp et al., 2021, arXiv:2105.03824): tokens are mixed by a Fourier transform over
// length and width,
//   y = Re(DFT_N(DFT_C(x))) = C_N x C_C - S_N x S_C   (C cosines, S sines),
// without a parameter. `hartley` keeps the imaginary part too: Re - Im, which loses nothing.
// `random` and `linear` are the paper's ablations, y = A x B with two matrices that are fixed or
// learned. N enters the frequencies. Where it is the length of the batch, what stands in a padded
// place is hidden (it is set to zero), but how many padded places there are matters; not where it
// is fixed or each sequence's own. The two matrices do not know it.
#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/fft_convolution.h"

namespace longbow {
namespace {

enum class Transform { fourier, hartley, random, linear };
constexpr std::array<std::string_view, 4> names_of(Transform) {
  return {"fourier", "hartley", "random", "linear"};
}

enum class Length { batch, fixed, own };
constexpr std::array<std::string_view, 3> names_of(Length) {
  return {"batch", "fixed", "own"};
}

struct Config {
  Transform transform = Transform::fourier;
  Length length = Length::batch;
  bool ortho = true;
  int64_t max_length = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("transform", c.transform,
    "real part of the Fourier transform, or real minus imaginary part; or a product with two "
    "matrices, random and fixed, or learned");
  v("length", c.length,
    "N of the Fourier transforms: that of the padded batch; max_length, up to which zeros stand "
    "behind every sequence; or the real tokens of each sequence");
  v("ortho", c.ortho,
    "divide by sqrt(N C), so that the scale does not grow; false is the paper's form, which fp16 "
    "cuts to -32752..32752");
  v("max_length", c.max_length,
    "random, linear and length: fixed: longest sequence; 0 = the model's max_length", at_least(0));
}

bool has_matrices(const Config& c) {
  return c.transform == Transform::random || c.transform == Transform::linear;
}

struct Fourier {
  bool hartley, ortho;
  int64_t length = 0;   // N; 0 = that of x
  Tensor lengths = {};  // [B] int64: of each sequence, in place of it
};

// The input is real, so half of the channels are transformed and the others follow from
// Y[-t, -c] = conj Y[t, c], for which `turned` gives the rows -t.
template <class F>
Tensor with_all_channels(const Tensor& y, int64_t channels, bool hartley, const F& turned) {
  const auto real = at::real(y), imaginary = at::imag(y);
  const auto others = (hartley ? real + imaginary : real).narrow(2, 1, (channels - 1) / 2).flip(2);
  return at::cat({hartley ? real - imaginary : real, turned(others)}, 2);
}

Tensor of_one_length(const Tensor& x, const Fourier& how) {
  const int64_t tokens = x.size(1), channels = x.size(2);
  const std::vector<int64_t> sizes = {how.length > 0 ? how.length : tokens, channels};
  const auto y = at::fft_rfft2(x, sizes, {1, 2}, how.ortho ? "ortho" : "backward");
  return with_all_channels(y, channels, how.hartley,
                           [](const Tensor& rows) { return rows.flip(1).roll(1, 1); })
      .narrow(1, 0, tokens);
}

// Bluestein's transforms of any lengths n, of each row its own, by convolutions of one size: as
// 2 k t = k^2 + t^2 - (k - t)^2, with the chirps a_t = exp(-i pi t^2 / n)
//   Y_k = sum_t x_t exp(-2 pi i k t / n) = a_k sum_t (x_t a_t) conj a_(k - t).
// Angles are reduced as integers. What is not of a sequence is zero before and after it.
Tensor of_own_lengths(const Tensor& given, const Fourier& how) {
  const int64_t tokens = given.size(1), channels = given.size(2), size = fft_size(2 * tokens - 1);
  const auto n = how.lengths.clamp_min(1).unsqueeze(1);  // [B, 1]
  const auto t = at::arange(tokens, n.options());
  const auto x = given.masked_fill((t >= n).unsqueeze(-1), 0);
  const auto turns = (t * t).remainder(2 * n).to(at::kDouble) / n;
  const auto angle = (turns * -std::numbers::pi).to(x.scalar_type());
  const auto chirp = at::polar(at::ones_like(angle), angle), a = chirp.unsqueeze(-1);  // [B, N, 1]
  const auto back = chirp.conj().resolve_conj();
  const auto none = at::zeros({back.size(0), size - 2 * tokens + 1}, back.options());
  const auto circle = at::cat({back, none, back.narrow(1, 1, tokens - 1).flip(1)}, 1);
  const auto product = at::fft_fft(at::fft_rfft(x, std::nullopt, 2) * a, size, 1) *
                       at::fft_fft(circle, size, 1).unsqueeze(-1);
  const auto y = at::fft_ifft(product, size, 1).narrow(1, 0, tokens) * a;
  const auto row = (n - t).remainder(n).unsqueeze(-1);  // of -t: [B, N, 1]
  const auto all = with_all_channels(y, channels, how.hartley, [&](const Tensor& rows) {
    return rows.gather(1, row.expand_as(rows));
  });
  const auto scaled =
      how.ortho ? all * (n * channels).to(all.scalar_type()).rsqrt().unsqueeze(-1) : all;
  return scaled.masked_fill((t >= n).unsqueeze(-1), 0);
}

// A symmetric map: its gradient is the same transform of the gradient.
struct Transformed : Differentiable {
  explicit Transformed(Fourier fourier) : how(std::move(fourier)) {}
  const Fourier how;

  TensorVector forward(const TensorVector& inputs) override {
    const auto& x = inputs[0];
    return {how.lengths.defined() ? of_own_lengths(x, how) : of_one_length(x, how)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    return applied<Transformed>({gradients[0]}, how);
  }
};

class FNet : public MixerImpl {
 public:
  FNet(const Site& site, const Config& config)
      : config_(config),
        longest_(config.max_length > 0 ? config.max_length : site.shape.max_length) {
    const bool matrices = has_matrices(config);
    TORCH_CHECK(longest_ > 0 || (!matrices && config.length != Length::fixed),
                "fnet: needs max_length, here or in the model");
    if (!matrices) return;
    tokens_ = matrix(site, "tokens", longest_);
    channels_ = matrix(site, "channels", site.shape.width);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& keep = context.mask.keep;
    const auto given = zero_where_padded(x, keep);
    if (has_matrices(config_)) return within_range(multiplied(given), x.scalar_type());
    Fourier how = {.hartley = config_.transform == Transform::hartley, .ortho = config_.ortho};
    if (config_.length == Length::fixed) {
      check_length(x.size(1));
      how.length = longest_;
    }
    if (config_.length == Length::own && keep.defined()) how.lengths = keep.sum(1);
    // Half types have no Fourier transform.
    return within_range(applied<Transformed>({given.to(wide(x))}, how)[0], x.scalar_type());
  }

 private:
  void check_length(int64_t tokens) const {
    TORCH_CHECK(tokens <= longest_, "fnet: ", tokens, " tokens, but max_length is ", longest_);
  }

  // The unnormalised sum over all tokens and channels may be larger than float16 can hold. It is
  // cut to half of the largest number, so that the residual may still be added.
  Tensor within_range(const Tensor& y, at::ScalarType type) const {
    constexpr double kLargest = 32752;
    const bool cut = type == at::kHalf && !config_.ortho;
    return (cut ? y.clamp(-kLargest, kLargest) : y).to(type);
  }

  // Entries of deviation one as those of a Fourier matrix, or 1 / sqrt(size) with `ortho`.
  Tensor matrix(const Site& site, const std::string& name, int64_t size) {
    if (config_.transform == Transform::linear)
      return parameter(name, initial_matrix(site, name, size, size));
    const double deviation = config_.ortho ? 1 / std::sqrt(static_cast<double>(size)) : 1;
    return register_buffer(name, initial_normal(site, name, {size, size}, deviation));
  }

  Tensor multiplied(const Tensor& x) const {  // A x B, with the corner of A that x needs
    const int64_t n = x.size(1);
    check_length(n);
    return tokens_.narrow(0, 0, n).narrow(1, 0, n).matmul(x.matmul(channels_));
  }

  Config config_;
  int64_t longest_;
  Tensor tokens_, channels_;  // [L, L], [C, C]
};

void check(const Config& c, const Site&) {
  require_option(c.length == Length::batch || !has_matrices(c), "length",
                 "is for the Fourier transforms, but these matrices are for any length",
                 "leave it out");
}

Promises promises(const Config& c) {
  const bool matrices = has_matrices(c);
  const bool counts = !matrices && c.length == Length::batch;  // padded places
  return {.padding = counts ? Padding::contents : Padding::invisible,
          .positional = true,
          .time = matrices ? 2.0 : 1.1,  // N log N, between one and eight thousand tokens
          .memory = matrices ? 2.0 : 1.0};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<FNet>(site, c);
}

}  // namespace

Mechanism fnet_mechanism() {
  return over_tokens<Config>(
      {.name = "fnet",
       .family = "fixed mixing",
       .paper = "arXiv:2105.03824",
       .cost = "O(N C log(N C))",
       .summary = "A Fourier transform over tokens and channels; no parameters.",
       .exact = "two dense matrices of cosines and sines; never softmax",
       .variants = {{"paper", "{ortho: false}"},
                    {"hartley", "{transform: hartley}"},
                    {"random", "{transform: random}"},
                    {"linear", "{transform: linear}"},
                    {"fixed", "{length: fixed}"},
                    {"own", "{length: own}"},
                    {"own_hartley", "{length: own, transform: hartley}"}}},
      promises, make, check);
}

}  // namespace longbow
