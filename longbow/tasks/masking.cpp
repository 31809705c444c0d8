#include "longbow/tasks/masking.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {

void check_masking(const MaskingConfig& config, const Node& model) {
  if (config.masked + config.random <= 1) return;
  throw UserError(model.place_of("masking"),
                  "masking.masked and masking.random are more than 1 together",
                  "what they leave of 1 stays as it is");
}

void check_first_token(const MaskingConfig& config, int64_t vocabulary, const Node& model) {
  if (config.first_token < vocabulary) return;
  throw UserError(model.place_of("masking.first_token"),
                  "masking.first_token is " + std::to_string(config.first_token) +
                      ", but the data has " + std::to_string(vocabulary) + " tokens",
                  "lower it");
}

MaskIds::MaskIds(const Splits& splits) : mask(splits.vocabulary), vocabulary(splits.vocabulary) {
  for (const auto* name : {"[MASK]", "<mask>"}) {
    const auto found = std::find(splits.symbols.begin(), splits.symbols.end(), name);
    if (found != splits.symbols.end()) mask = found - splits.symbols.begin();
  }
}

Symbols MaskIds::symbols(const Splits& splits) const {
  auto names = splits.symbols;
  if (!names.empty() && mask == vocabulary) {
    names.resize(static_cast<size_t>(vocabulary));
    names.emplace_back("[MASK]");
  }
  return {names, inputs(), 0, splits.codec};
}

Masked masked(const Tensor& tokens, const Tensor& keep, const MaskingConfig& config,
              const MaskIds& ids, const Random& random) {
  TORCH_CHECK(config.first_token < ids.vocabulary, "masking: first_token is ", config.first_token,
              ", but there are ", ids.vocabulary, " tokens");
  auto allowed = (tokens >= config.first_token).logical_and(tokens != ids.mask);
  if (keep.defined()) allowed = allowed.logical_and(keep);
  const auto chosen =
      (random.uniform(tokens.sizes(), "masking.choose") < config.share).logical_and(allowed);
  const auto choices = static_cast<double>(ids.vocabulary - config.first_token);
  const auto other = random.uniform(tokens.sizes(), "masking.token")
                         .mul_(choices)
                         .floor_()
                         .clamp_max_(choices - 1)
                         .to(at::kLong)
                         .add_(config.first_token);
  const auto what = random.uniform(tokens.sizes(), "masking.replace");
  const auto hidden = chosen.logical_and(what < config.masked);
  const auto replaced =
      chosen.logical_and(what >= config.masked).logical_and(what < config.masked + config.random);
  return {.tokens = at::where(replaced, other, tokens).masked_fill(hidden, ids.mask),
          .chosen = chosen,
          .allowed = allowed,
          .targets = tokens.masked_fill(chosen.logical_not(), kIgnore)};
}

Masked masked(const Batch& batch, const MaskingConfig& config, const MaskIds& ids,
              const Random& random) {
  const auto keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
  return masked(batch.tokens, keep, config, ids, random);
}

}  // namespace longbow
