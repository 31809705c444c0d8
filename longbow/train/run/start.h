#pragma once
// Training that starts from weights that exist: a finished run, or a BERT.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/train/run/move.h"

namespace longbow {

struct RunConfig;
struct TrainOptions;
struct Splits;
class Part;

enum class NewPositions { anew, tile };
constexpr std::array<std::string_view, 2> names_of(NewPositions) {
  return {"anew", "tile"};
}

struct StartConfig {
  std::string from = "";
  NewPositions positions = NewPositions::anew;
  std::optional<int64_t> freeze = {}, vocabulary = {};
};
template <class V>
void fields(V& v, StartConfig& c) {
  v("from", c.from,
    "folder of a finished run, of an imported BERT or of one of Hugging Face, relative to the "
    "config; empty: random weights");
  v("positions", c.positions,
    "learned ones behind the longest sequence of the folder: new ones, or its own ones repeated");
  v("freeze", c.freeze,
    "the embeddings and so many lowest layers stay as they are; none = all move", at_least(0));
  v("vocabulary", c.vocabulary,
    "words of the folder's model; noted in the config.yaml of a run, whose folder is then not read "
    "again for defaults of `model`; leave it out",
    at_least(0));
}

// The entries of a model part that describe its encoder.
Node encoder_part(const Node& model);

// What the folder says becomes the default of config.model, and its vocabulary is noted; nothing is
// read where the vocabulary is known already, because such a config is complete. UserError for a
// model that the weights cannot fit; `tree` is where the config was read from.
void resolve_start(RunConfig& config, const Node& tree);

// For a run that is resumed: what resolve_start found is in its config.yaml, and the folder that it
// started from may be gone.
void recall_start(Node& tree, const std::string& run);

// The model keeps its vocabulary where the data has fewer words. UserError where it has more.
void fit_vocabulary(const StartConfig& start, Splits& splits);
// Parameters that stay as they are need no gradient.
void freeze(const StartConfig& start, Part& model);

// Whether the folder of a run is for the trainer to continue or to refuse.
bool has_begun(const TrainOptions& options);
// The weights of the folder. None when the run asks for none or has begun.
Inheritance started(const RunConfig& config, const TrainOptions& options);

}  // namespace longbow
