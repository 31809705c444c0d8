// FNet (Lee-Thorp et al., 2021, arXiv:2105.03824): tokens are mixed by a Fourier transform over
// length and width,
//   y = Re(DFT_N(DFT_C(x))) = C_N x C_C - S_N x S_C   (C cosines, S sines),
// without a parameter. `hartley` keeps the imaginary part too: Re - Im, which loses nothing.
// `random` and `linear` are the paper's ablations, y = A x B with two matrices that are fixed or
// learned. The number of tokens enters the frequencies: what stands in a padded place is hidden (it
// is set to zero), but how many padded places there are matters. The two matrices do not know it.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

enum class Transform { fourier, hartley, random, linear };
constexpr std::array<std::string_view, 4> names_of(Transform) {
  return {"fourier", "hartley", "random", "linear"};
}

struct Config {
  Transform transform = Transform::fourier;
  bool ortho = true;
  int64_t max_length = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("transform", c.transform,
    "real part of the Fourier transform, or real minus imaginary part; or a product with two "
    "matrices, random and fixed, or learned");
  v("ortho", c.ortho,
    "divide by sqrt(N C), so that the scale does not grow; false is the paper's form, which fp16 "
    "cuts to -32752..32752");
  v("max_length", c.max_length, "random and linear: longest sequence; 0 = the model's max_length",
    at_least(0));
}

bool has_matrices(const Config& c) {
  return c.transform == Transform::random || c.transform == Transform::linear;
}

// The input is real, so half of the channels are transformed and the others follow from
// Y[-t, -c] = conj Y[t, c].
Tensor transformed(const Tensor& x, bool hartley, bool ortho) {
  const auto y = at::fft_rfft2(x, {}, {1, 2}, ortho ? "ortho" : "backward");
  const auto real = at::real(y), imaginary = at::imag(y);
  const auto mirrored =
      (hartley ? real + imaginary : real).narrow(2, 1, (x.size(2) - 1) / 2).flip({1, 2}).roll(1, 1);
  return at::cat({hartley ? real - imaginary : real, mirrored}, 2);
}

// A symmetric map: its gradient is the same transform of the gradient.
struct Fourier : Differentiable {
  Fourier(bool is_hartley, bool is_ortho) : hartley(is_hartley), ortho(is_ortho) {}
  const bool hartley, ortho;

  TensorVector forward(const TensorVector& inputs) override {
    return {transformed(inputs[0], hartley, ortho)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    return applied<Fourier>({gradients[0]}, hartley, ortho);
  }
};

class FNet : public MixerImpl {
 public:
  FNet(const Site& site, const Config& config)
      : config_(config),
        longest_(config.max_length > 0 ? config.max_length : site.shape.max_length) {
    if (!has_matrices(config)) return;
    TORCH_CHECK(longest_ > 0, "fnet: needs max_length, here or in the model");
    tokens_ = matrix(site, "tokens", longest_);
    channels_ = matrix(site, "channels", site.shape.width);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto given = zero_where_padded(x, context.mask.keep);
    if (has_matrices(config_)) return within_range(multiplied(given), x.scalar_type());
    // Half types have no Fourier transform.
    const auto y = applied<Fourier>({given.to(wide(x))}, config_.transform == Transform::hartley,
                                    config_.ortho);
    return within_range(y[0], x.scalar_type());
  }

 private:
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
    TORCH_CHECK(n <= longest_, "fnet: ", n, " tokens, but max_length is ", longest_);
    return tokens_.narrow(0, 0, n).narrow(1, 0, n).matmul(x.matmul(channels_));
  }

  Config config_;
  int64_t longest_;
  Tensor tokens_, channels_;  // [L, L], [C, C]
};

Promises promises(const Config& c) {
  const bool matrices = has_matrices(c);
  return {.padding = matrices ? Padding::invisible : Padding::contents,
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
                    {"linear", "{transform: linear}"}}},
      promises, make);
}

}  // namespace longbow
