#include "longbow/tasks/masking.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "longbow/data/samples/text_codec.h"

namespace longbow {

void check_masking(const MaskingConfig& config, const Node& model) {
  if (config.masked + config.random <= 1) return;
  throw UserError(model.place_of("masking"),
                  "masking.masked and masking.random are more than 1 together",
                  "what they leave of 1 stays as it is");
}

void check_masked_data(const MaskingConfig& config, const Splits& splits, const Node& model) {
  if (config.first_token >= splits.vocabulary)
    throw UserError(model.place_of("masking.first_token"),
                    "masking.first_token is " + std::to_string(config.first_token) +
                        ", but the data has " + std::to_string(splits.vocabulary) + " tokens",
                    "lower it");
  if (config.whole_words && !splits.codec)
    throw UserError(model.place_of("masking.whole_words"),
                    "masking.whole_words is true, but the data is not text",
                    "leave it out: every token is a word");
}

MaskIds::MaskIds(const Splits& splits, at::Device device)
    : mask(splits.vocabulary), vocabulary(splits.vocabulary) {
  for (const auto* name : {"[MASK]", "<mask>"}) {
    const auto found = std::find(splits.symbols.begin(), splits.symbols.end(), name);
    if (found != splits.symbols.end()) mask = found - splits.symbols.begin();
  }
  if (!splits.codec) return;
  const auto traits = splits.codec->traits();
  const auto table = [&](bool TokenTraits::*which) {
    auto values = at::zeros({inputs()}, at::kBool);
    for (size_t id = 0; id < traits.size(); ++id) values.data_ptr<bool>()[id] = traits[id].*which;
    return values.to(device);
  };
  special = table(&TokenTraits::special);
  begins = table(&TokenTraits::begins);
  ends = table(&TokenTraits::ends);
}

Symbols MaskIds::symbols(const Splits& splits) const {
  auto names = splits.symbols;
  if (!names.empty() && mask == vocabulary) {
    names.resize(static_cast<size_t>(vocabulary));
    names.emplace_back("[MASK]");
  }
  return {names, inputs(), splits.unknown, splits.codec};
}

namespace {

Tensor of_tokens(const Tensor& table, const Tensor& tokens) {
  return table.index_select(0, tokens.flatten()).view_as(tokens);
}

// The number of the word of each token in its row, [B, N].
Tensor words_of(const Tensor& tokens, const Tensor& allowed, const MaskIds& ids) {
  TORCH_CHECK(ids.begins.defined(), "masking: the data has no words");
  auto begins = of_tokens(ids.begins, tokens);
  const auto after = of_tokens(ids.ends, tokens).logical_or(allowed.logical_not());
  begins.slice(1, 1).logical_or_(after.slice(1, 0, -1));
  begins.select(1, 0).fill_(true);
  return begins.cumsum(1).sub_(1);
}

}  // namespace

Masked masked(const Tensor& tokens, const Tensor& keep, const MaskingConfig& config,
              const MaskIds& ids, const Random& random) {
  TORCH_CHECK(config.first_token < ids.vocabulary, "masking: first_token is ", config.first_token,
              ", but there are ", ids.vocabulary, " tokens");
  auto allowed = (tokens >= config.first_token).logical_and(tokens != ids.mask);
  if (keep.defined()) allowed = allowed.logical_and(keep);
  if (ids.special.defined())
    allowed = allowed.logical_and(of_tokens(ids.special, tokens).logical_not());
  auto draws = random.uniform(tokens.sizes(), "masking.choose");
  if (config.whole_words) draws = draws.gather(1, words_of(tokens, allowed, ids));
  const auto chosen = (draws < config.fraction).logical_and(allowed);
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
