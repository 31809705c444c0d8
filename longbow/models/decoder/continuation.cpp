#include "longbow/models/decoder/continuation.h"

#include <ATen/ATen.h>

#include <limits>

namespace longbow {

void check_decoding(const DecodingConfig& config, const Node& tree) {
  const auto fail = [&](const char* key, const std::string& what, const std::string& hint) {
    throw UserError(tree.place_of(key), what, hint);
  };
  if (config.max_length > 0 && config.min_length >= config.max_length)
    fail("min_length",
         "min_length " + std::to_string(config.min_length) + " leaves no room for the end",
         "max_length is " + std::to_string(config.max_length));
  if (config.method == DecodingMethod::greedy && config.n_best > 1)
    fail("n_best", "greedy decoding finds one text, not " + std::to_string(config.n_best),
         "set method to beam or sample");
  if (config.method == DecodingMethod::beam && config.n_best > config.beams)
    fail("n_best",
         "n_best " + std::to_string(config.n_best) + " is more than the beams, " +
             std::to_string(config.beams),
         "raise beams");
}

Continuation without(const Continuation& model, const std::vector<int64_t>& ids) {
  auto limited = model;
  limited.next = [next = model.next, ids](const Tensor& tokens, const Tensor& keep, State& state) {
    auto logits = next(tokens, keep, state).clone();
    for (const auto id : ids) logits.select(1, id).fill_(-std::numeric_limits<double>::infinity());
    return logits;
  };
  return limited;
}

Prompt Prompt::begin(int64_t lanes, int64_t id, at::Device device) {
  return {at::full({lanes, 1}, id, at::TensorOptions(at::kLong).device(device))};
}

Tensor last_rows(const Tensor& x, const Tensor& keep) {
  if (!keep.defined()) return x.select(1, x.size(1) - 1);
  const auto last = keep.sum(1).sub(1).clamp_min(0).view({-1, 1, 1});
  return x.gather(1, last.expand({-1, 1, x.size(2)})).squeeze(1);
}

}  // namespace longbow
