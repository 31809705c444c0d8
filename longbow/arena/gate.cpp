#include "longbow/arena/gate.h"

#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"

namespace longbow::arena {
namespace {

// The layer is built for longer sequences than it is given, so that options meant for those fit.
constexpr int64_t kBatch = 2, kLength = 48, kReal = 33, kHeads = 2, kLongest = 1024;

bool same(const Tensor& a, const Tensor& b) {
  constexpr double kTolerance = 1e-9;
  return (a - b).abs().max().item<double>() <= kTolerance;
}

}  // namespace

std::string broken_promise(MixerImpl& mixer) {
  at::NoGradGuard no_grad;
  const auto x = Random::from_seed(3).normal({kBatch, kLength, kGateWidth}, "gate").to(at::kDouble);
  auto changed = x.clone();
  changed.narrow(1, kReal, kLength - kReal).neg_().add_(1);
  const auto run = [&](const Tensor& tokens, const Mask& mask) {
    Context context = {.mask = mask};
    return mixer(tokens, context);
  };
  const auto& p = mixer.promises();
  const Mask plain = {.causal = !p.bidirectional};
  if (p.padding != Padding::refused && p.padding != Padding::visible) {
    auto mask = Mask::from_lengths(at::full({kBatch}, kReal, at::kLong), kLength);
    mask.causal = plain.causal;
    if (!same(run(x, mask), run(changed, mask))) return "padding is visible";
  }
  if (p.future == Future::exact || p.future == Future::rounded) {
    const auto before = [&](const Tensor& t) {
      return run(t, {.causal = true}).narrow(1, 0, kReal);
    };
    if (!same(before(x), before(changed))) return "the future is visible";
  }
  if (!same(run(x, plain).narrow(0, 0, 1), run(x.narrow(0, 0, 1), plain)))
    return "rows of a batch are not independent";
  return "";
}

std::string broken_promise(const Node& options) {
  const Site site = {.shape = {.width = kGateWidth, .heads = kHeads, .max_length = kLongest},
                     .init = "xavier",
                     .seed = 1,
                     .shared = std::make_shared<Shared>()};
  auto mixer = make_mixer(options, site);
  mixer->to(at::kDouble);
  site.shared->to(at::kDouble);
  mixer->eval();
  return broken_promise(*mixer);
}

}  // namespace longbow::arena
