#pragma once
// Which tokens a model must guess, and what stands in their place (BERT, Devlin et al., 2018,
// arXiv:1810.04805).
#include "longbow/core/fields.h"
#include "longbow/data/feed/batch.h"
#include "longbow/data/readers/symbols.h"
#include "longbow/nn/contract/context.h"

namespace longbow {

struct MaskingConfig {
  double fraction = 0.15, masked = 0.8, random = 0.1;
  int64_t first_token = 1;
  bool whole_words = false;
};
template <class V>
void fields(V& v, MaskingConfig& c) {
  v("fraction", c.fraction, "fraction of the tokens that are predicted", range(1e-6, 1));
  v("masked", c.masked, "fraction of those that are replaced by the mask token", range(0, 1));
  v("random", c.random, "fraction of those that are replaced by a random token; the rest is kept",
    range(0, 1));
  v("first_token", c.first_token, "ids below this are special: never hidden, never drawn",
    at_least(1));
  v("whole_words", c.whole_words, "all tokens of a word are hidden together; for texts");
}

// UserError at its place in `model` when the fractions do not fit together.
void check_masking(const MaskingConfig& config, const Node& model);

// UserError at its place in `model` when no token of the data is left to be hidden, or when it has
// no words.
void check_masked_data(const MaskingConfig& config, const Splits& splits, const Node& model);

// The ids that masking needs. The mask token is the data's own ("[MASK]" or "<mask>" among its
// symbols), or one behind its vocabulary.
struct MaskIds {
  explicit MaskIds(const Splits& splits, at::Device device = at::kCPU);
  int64_t mask, vocabulary;
  // Of texts, [inputs()] bool by token, on the device: never hidden; a word begins with it; ends.
  Tensor special, begins, ends;
  int64_t inputs() const { return std::max(mask + 1, vocabulary); }
  Symbols symbols(const Splits& splits) const;  // the data's, with "[MASK]" where it has none
};

struct Masked {
  Tensor tokens;   // [B, N] what the model reads
  Tensor chosen;   // [B, N] bool: to be guessed
  Tensor allowed;  // [B, N] bool: could have been chosen; neither padding nor special
  Tensor targets;  // [B, N] the token where chosen, kIgnore elsewhere
};
// Drawn on the device, by `random`. keep [B, N]: real tokens.
Masked masked(const Tensor& tokens, const Tensor& keep, const MaskingConfig& config,
              const MaskIds& ids, const Random& random);
Masked masked(const Batch& batch, const MaskingConfig& config, const MaskIds& ids,
              const Random& random);

}  // namespace longbow
