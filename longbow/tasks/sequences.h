#pragma once
// Samples that are a sequence or a pair of sequences, and the models that give some numbers for
// each.
#include "longbow/models/pair.h"
#include "longbow/tasks/task.h"

namespace longbow {

// How a pair is read: each sequence by itself, or both as one.
enum class Arrangement { towers, joint };
constexpr std::array<std::string_view, 2> names_of(Arrangement) {
  return {"towers", "joint"};
}

struct SequencesConfig {
  PairConfig model = {};
  Arrangement pairs = Arrangement::towers;
};
template <class V>
void fields(V& v, SequencesConfig& c) {
  fields(v, c.model.towers);
  v("pairs", c.pairs,
    "each sequence of a pair through the same encoder, or both as one sequence with a separator");
  v("features", c.model.features,
    "what the head sees of two towers u and v, joined: [u, v], u v, u - v, |u - v|");
}

// UserError when the encoder cannot be built, or does not give one row a sample.
void check_sequences(const SequencesConfig& config, const Node& tree);

class Sequences {
 public:
  // Joins the pairs of the splits when they are read as one.
  Sequences(Splits& splits, const SequencesConfig& config, int64_t outputs,
            const TaskOptions& options);
  Part& model() const { return *model_; }
  const SequencesConfig& config() const { return config_; }
  Tensor operator()(const Batch& batch, Context& context) const;  // -> [B, outputs]

 private:
  SequencesConfig config_;
  std::shared_ptr<Classifier> classifier_;
  std::shared_ptr<PairClassifier> towers_;
  Part* model_ = nullptr;  // the one of the two that is there
};

}  // namespace longbow
