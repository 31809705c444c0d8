// Nystromformer (Xiong et al., 2021, arXiv:2102.03902): the softmax matrix is rebuilt from R
// landmarks, the means q~, k~ of R consecutive segments of queries and keys (Nystrom's method):
//   o = F1 F2^+ (F3 V) + conv(V),
//   F1 = softmax(q k~^T) [N, R],  F2 = softmax(q~ k~^T) [R, R],  F3 = softmax(q~ k^T) [R, N],
// with q and k scaled by D^(-1/4) each. The pseudo-inverse F2^+ is iterated, and the convolution
// over the length, one filter per head, keeps what is local.
// Exact (without the convolution) when R >= N and the iteration has converged: P P^+ P = P.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

struct Config {
  int64_t landmarks = 64;
  int64_t steps = 6;
  int64_t conv = 33;
};
template <class V>
void fields(V& v, Config& c) {
  v("landmarks", c.landmarks, "segments of the sequence, each with its mean", range(1, 65536));
  v("steps", c.steps, "of the iteration for the pseudo-inverse; 20 converge", range(1, 100));
  v("conv", c.conv, "length of the filter over the values, odd; 0 = no convolution",
    range(0, 4095));
}

class Nystromformer : public AttentionImpl {
 public:
  Nystromformer(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        path_(site.path),
        scale_(std::pow(static_cast<double>(site.shape.head()), -0.25)) {
    const int64_t taps = config.conv;
    if (taps == 0) return;
    TORCH_CHECK(taps % 2 == 1, "nystromformer: conv is ", taps, ", but a filter has an odd length");
    const double bound = 1 / std::sqrt(static_cast<double>(taps));
    conv_ = parameter("conv", initial_uniform(site, "conv", {heads_, taps}, bound));
  }

  // F2 may be nearly singular, and its inverse enlarges what was rounded: what stands between F1
  // and F3 V is small and kept in float64, the rest in float32 at least.
  Tensor attend(const Heads& heads, Context& context) override {
    const auto type = wide(heads.q);
    const auto q = heads.q.to(type) * scale_, k = heads.k.to(type) * scale_, v = heads.v.to(type);
    const auto& keep = context.mask.keep;
    const auto mean = segment_means(q, keep);  // [B or 1, R, N]
    const auto landmarks = [&](const Tensor& x) {
      return split_heads(mean.matmul(merge_heads(x)), heads_);
    };
    const auto q_mean = landmarks(q), k_mean = landmarks(k).transpose(-2, -1);
    Tensor real, filled, pairs;  // keys, landmarks and pairs of landmarks that are there
    if (keep.defined()) {
      real = keep.unsqueeze(1).unsqueeze(1);                  // [B, 1, 1, N]
      filled = (mean > 0).any(-1).unsqueeze(1).unsqueeze(1);  // [B, 1, 1, R]
      pairs = filled.logical_and(filled.transpose(-2, -1));
    }
    const auto f1 = masked_softmax(q.matmul(k_mean), filled);                    // [B, H, N, R]
    const auto f2 = masked_softmax(exact(q_mean).matmul(exact(k_mean)), pairs);  // [B, H, R, R]
    const auto f3 = masked_softmax(q_mean.matmul(k.transpose(-2, -1)), real);    // [B, H, R, N]
    const auto inverse = pseudo_inverse(f2);
    if (context.maps)
      (*context.maps)[path_] = f1.matmul(inverse.matmul(exact(f3)).to(type)).detach();
    const auto y = f1.matmul(inverse.matmul(exact(f3.matmul(v))).to(type));
    return (conv_.defined() ? y + convolved(v, real) : y).to(heads.v.scalar_type());
  }

 private:
  static Tensor exact(const Tensor& x) { return x.to(at::kDouble); }

  // Segment g holds the tokens floor(g L / R) <= i < floor((g + 1) L / R) of the row's L real ones,
  // so token i is in segment ((i + 1) R - 1) div L. A segment without tokens is a row of zeros.
  Tensor segment_means(const Tensor& x, const Tensor& keep) const {
    const int64_t n = x.size(2), r = std::min(config_.landmarks, n);
    const auto options = x.options().dtype(at::kLong);
    const auto last = at::arange(1, n + 1, options) * r - 1;  // [N]
    const auto segment = keep.defined() ? last.floor_divide(keep.sum(1, true).clamp_min(1))
                                        : last.floor_divide(n).unsqueeze(0);
    auto member = segment.unsqueeze(1) == at::arange(r, options).unsqueeze(1);
    if (keep.defined()) member = member.logical_and(keep.unsqueeze(1));
    return member.to(x.scalar_type()) / member.sum(-1, true).clamp_min(1);
  }

  // Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4, started for each matrix by itself from
  // Z = A^T / (largest row sum x largest column sum). The rows sum to 1, so the second is at least
  // 1 and the first is 1, except in a sequence without tokens, where A is zero. A hidden landmark
  // is a row and a column of zeros, and stays one in Z.
  Tensor pseudo_inverse(const Tensor& a) const {
    const auto identity = at::eye(a.size(-1), a.options());
    auto z = a.transpose(-2, -1) / a.sum(-2, true).amax(-1, true).clamp_min(0.5);
    for (int64_t step = 0; step < config_.steps; ++step) {
      const auto az = a.matmul(z);
      z = z.matmul(13 * identity - az.matmul(15 * identity - az.matmul(7 * identity - az))) / 4;
    }
    return z;
  }

  // Each head's filter along the length of its real values, zeros beyond the ends.
  Tensor convolved(const Tensor& v, const Tensor& real) const {
    const auto values = real.defined() ? v * real.transpose(-2, -1).to(v.scalar_type()) : v;
    const auto filter = conv_.to(v.scalar_type()).unsqueeze(1).unsqueeze(-1);  // [H, 1, taps, 1]
    return at::conv2d(values, filter, {}, 1, at::IntArrayRef({config_.conv / 2, 0}), 1, heads_);
  }

  Config config_;
  int64_t heads_;
  std::string path_;
  double scale_;
  Tensor conv_;  // [H, taps], or undefined
};

Promises promises(const Config&) {
  return {.positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Nystromformer>(site, c);
}

}  // namespace

Mechanism nystromformer_mechanism() {
  return over_heads<Config>(
      {.name = "nystromformer",
       .family = "low rank",
       .paper = "arXiv:2102.03902",
       .cost = "O(N R D + R^3)",
       .summary = "The softmax matrix rebuilt from the means of segments, by Nystrom's method.",
       .exact = "landmarks >= N, 20 steps and no convolution: softmax",
       .variants = {{"few", "{landmarks: 5, conv: 3}"},
                    {"converged", "{landmarks: 4, steps: 20, conv: 0}"}}},
      promises, make);
}

}  // namespace longbow
