// Softmax attention (Vaswani et al., 2017, arXiv:1706.03762), the exact one that all others are
// measured against:
//   o_i = sum_j softmax_j(q_i . k_j / sqrt D) v_j over the keys that are visible to i.
// `fused` streams the keys past each query and stores no N x M tensor, as `libtorch` does by
// LibTorch's kernels alone; `naive` is the formula as it stands.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/exact_attention.h"

namespace longbow {
namespace {

enum class Form { fused, libtorch, naive };
constexpr std::array<std::string_view, 3> names_of(Form) {
  return {"fused", "libtorch", "naive"};
}

struct Config {
  Form form = Form::fused;
  double dropout = 0;
  std::vector<double> head_mask = {};
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form,
    "the fastest fused kernels, those of LibTorch alone, or the formula with its N x M scores");
  v("dropout", c.dropout, "rate on the attention weights; fused drops them tile by tile",
    range(0, 0.99));
  v("head_mask", c.head_mask,
    "a factor for the weights of each head, 0 = without it; an empty list = all heads",
    range(0, 1));
}

class Softmax : public ExactAttention {
 public:
  Softmax(const Site& site, const Config& config)
      : ExactAttention(site, config.dropout), config_(config) {}

  Tensor attend(const Heads& heads, Context& context) override {
    if (config_.form == Form::naive) return AllPairs::attend(heads, context);
    if (config_.form == Form::libtorch && !context.maps && !drops())
      return masked(fused_attention(heads, context.mask, scale_, FusedKernels::libtorch));
    // With maps, the formula below has masked already.
    const auto y = ExactAttention::attend(heads, context);
    return context.maps ? y : masked(y);
  }

 protected:
  Tensor read(const Heads& heads, const Seen& seen, Context& context) override {
    return masked(ExactAttention::read(heads, seen, context));
  }

 private:
  // A factor on all weights of a head is one on its output. Filled where y lives, because a copy
  // from the host would wait for the device.
  Tensor masked(const Tensor& y) const {
    if (config_.head_mask.empty()) return y;
    const auto factors = at::empty({y.size(1), 1, 1}, y.options());
    for (int64_t h = 0; h < y.size(1); ++h)
      factors.select(0, h).fill_(config_.head_mask[static_cast<size_t>(h)]);
    return y * factors;
  }

  Config config_;
};

void check(const Config& c, const Site& site) {
  const auto given = static_cast<int64_t>(c.head_mask.size());
  require_option(given == 0 || given == site.shape.heads, "head_mask",
                 c10::str("has ", given, " entries for ", site.shape.heads, " heads"),
                 "give one for each head, or leave it out");
}

Promises promises(const Config& c) {
  auto promises = AllPairs::promised(c.form == Form::naive);
  promises.launches = promises.causal_launches = Launches::constant;
  return promises;
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Softmax>(site, c);
}

}  // namespace

Mechanism softmax_mechanism() {
  return over_heads<Config>(
      {.name = "softmax",
       .family = "exact",
       .paper = "arXiv:1706.03762",
       .cost = "O(N M D)",
       .summary = "Every query weighs every key; the exact form the others approximate.",
       .exact = "itself",
       .variants = {{"libtorch", "{form: libtorch}"}, {"naive", "{form: naive}"}}},
      promises, make, check);
}

}  // namespace longbow
