// FNet (Lee-Thorp et al., 2021, arXiv:2105.03824): tokens are mixed by a Fourier transform over
// length and width,
//   y = Re(DFT_N(DFT_C(x))) = C_N x C_C - S_N x S_C   (C cosines, S sines),
// without a parameter. `hartley` keeps the imaginary part too: Re - Im, which loses nothing.
// The number of tokens enters the frequencies: what stands in a padded place is hidden (it is set
// to zero), but how many padded places there are matters.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"

namespace longbow {
namespace {

enum class Transform { fourier, hartley };
constexpr std::array<std::string_view, 2> names_of(Transform) {
  return {"fourier", "hartley"};
}

struct Config {
  Transform transform = Transform::fourier;
  bool ortho = true;
};
template <class V>
void fields(V& v, Config& c) {
  v("transform", c.transform, "real part of the Fourier transform, or real minus imaginary part");
  v("ortho", c.ortho,
    "divide by sqrt(N C), so that the scale does not grow; false is the paper's form");
}

class FNet : public MixerImpl {
 public:
  explicit FNet(const Config& config) : config_(config) {}

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& keep = context.mask.keep;
    const auto tokens = keep.defined() ? x.masked_fill(keep.logical_not().unsqueeze(-1), 0) : x;
    // Half types have no Fourier transform.
    const auto y =
        at::fft_fft2(tokens.to(wide(x)), {}, {1, 2}, config_.ortho ? "ortho" : "backward");
    const auto real = at::real(y);
    return (config_.transform == Transform::hartley ? real - at::imag(y) : real)
        .to(x.scalar_type());
  }

 private:
  Config config_;
};

Promises promises(const Config&) {
  return {.padding = Padding::contents, .positional = true};
}

Mixer make(const Site&, const Config& c) {
  return std::make_shared<FNet>(c);
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
       .variants = {{"paper", "{ortho: false}"}, {"hartley", "{transform: hartley}"}}},
      promises, make);
}

}  // namespace longbow
