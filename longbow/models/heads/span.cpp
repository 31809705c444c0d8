#include "longbow/models/heads/span.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "longbow/nn/contract/linear.h"

namespace longbow {
namespace {

// Low enough for a probability of 0, and the sum of two is still finite.
constexpr double kLeast = -1e30;

}  // namespace

SpanModel::SpanModel(const EncoderConfig& config, int64_t vocabulary, uint64_t seed)
    : encoder_(register_module("encoder", std::make_shared<Encoder>(config, vocabulary, seed))) {
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), config.width, 2));
}

Tensor SpanModel::operator()(const Tensor& tokens, const Tensor& where, Context& context) {
  auto logits = (*output_)((*encoder_)(tokens, context)).transpose(1, 2);  // [B, 2, N]
  logits = logits.to(wide(logits));
  for (const auto& may : {context.mask.keep, where})
    if (may.defined()) logits = logits.masked_fill(may.logical_not().unsqueeze(1), kLeast);
  return logits;
}

Tensor best_spans(const Tensor& logits, int64_t most) {
  const auto starts = logits.select(1, 0), ends = logits.select(1, 1);  // [B, N]
  const int64_t length = logits.size(2);
  const int64_t width = most > 0 ? std::min(most, length) : length;
  Tensor best, end;  // of the ends for every start, [B, N]
  if (width == length) {
    // From the right, the largest so far.
    std::tie(best, end) = ends.flip(1).cummax(1);
    best = best.flip(1);
    end = length - 1 - end.flip(1);
  } else {
    const auto padded =
        at::constant_pad_nd(ends, {0, width - 1}, -std::numeric_limits<double>::infinity());
    std::tie(best, end) = padded.unfold(1, width, 1).max(-1);
    end = end + at::arange(length, end.options());
  }
  const auto start = (starts + best).argmax(1, /*keepdim=*/true);
  return at::cat({start, end.gather(1, start)}, 1);
}

}  // namespace longbow
