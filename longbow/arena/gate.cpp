#include "longbow/arena/gate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "longbow/attention/mechanism.h"

namespace longbow::arena {
namespace {

constexpr int64_t kBatch = 2, kLength = 48, kReal = 33;

bool same(const Tensor& a, const Tensor& b) {
  constexpr double kTolerance = 1e-9;
  return (a - b).abs().max().item<double>() <= kTolerance;
}

Site site_of(int64_t heads, int64_t max_length) {
  constexpr int64_t kHeads = 2, kHeadWidth = kGateWidth / kHeads;
  return {.shape = {.width = heads * kHeadWidth, .heads = heads, .max_length = max_length},
          .init = "xavier",
          .seed = 1,
          .shared = std::make_shared<Shared>()};
}

bool fits(const Node& options, const Site& site) {
  try {
    check_options(options, site);
    return true;
  } catch (const OptionError&) {
    return false;
  }
}

// A layer for longer sequences than it is given, which most options are meant for, or else one that
// is like those to be timed.
std::optional<Site> fitting_site(const Node& options, const GateSite& timed) {
  constexpr int64_t kLongest = 1024;
  std::vector<Site> sites = {site_of(GateSite().heads, kLongest), site_of(timed.heads, kLongest)};
  for (const auto length : timed.lengths)
    sites.push_back(site_of(timed.heads, std::max(kLength, length + 1)));
  const auto found = std::ranges::find_if(sites, [&](const Site& s) { return fits(options, s); });
  return found == sites.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::string broken_promise(MixerImpl& mixer, int64_t width) {
  at::NoGradGuard no_grad;
  const auto x = Random::from_seed(3).normal({kBatch, kLength, width}, "gate").to(at::kDouble);
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

std::string broken_promise(const Node& options, const GateSite& timed) {
  const auto site = fitting_site(options, timed);
  if (!site) return "";
  auto mixer = make_mixer(options, *site);
  mixer->to(at::kDouble);
  site->shared->to(at::kDouble);
  mixer->eval();
  return broken_promise(*mixer, site->shape.width);
}

}  // namespace longbow::arena
