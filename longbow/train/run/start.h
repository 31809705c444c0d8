#pragma once
// The part of a config that names weights to start from: a finished run, or a BERT.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "longbow/core/fields.h"

namespace longbow {

enum class NewPositions { random, tile };
constexpr std::array<std::string_view, 2> names_of(NewPositions) {
  return {"random", "tile"};
}

struct StartConfig {
  std::string from = "";
  NewPositions positions = NewPositions::random;
  std::optional<int64_t> freeze = {}, vocabulary = {};
};
template <class V>
void fields(V& v, StartConfig& c) {
  v("from", c.from,
    "folder of a finished run, of an imported BERT or of one of Hugging Face, relative to the "
    "config; empty: random weights");
  v("positions", c.positions,
    "learned positions after the longest sequence of the folder: random, or the stored ones "
    "repeated");
  v("freeze", c.freeze,
    "the embeddings and so many lowest layers stay as they are; none = all move", at_least(0));
  v("vocabulary", c.vocabulary,
    "words of the folder's model; noted in the config.yaml of a run, whose folder is then not read "
    "again for defaults of `model`; leave it out",
    at_least(0));
}

// What the folder says becomes the default of `model`, and its vocabulary is noted; nothing is read
// where the vocabulary is known already, because such a config is complete. UserError for a model
// that the weights cannot fit; `tree` is the whole config, as it was read.
void resolve_start(StartConfig& start, Node& model, const std::string& objective, const Node& tree);

// For a run that is resumed: what resolve_start found is in its config.yaml, and the folder that it
// started from may be gone.
void recall_start(Node& tree, const std::string& run);

}  // namespace longbow
