#pragma once
// Samples that are a sequence or a pair of sequences, and the models that give some numbers for
// each.
#include "longbow/models/heads/pair.h"
#include "longbow/tasks/objectives.h"

namespace longbow {

// How a pair is read: each sequence by itself, or both as one.
enum class Arrangement { towers, joint };
constexpr std::array<std::string_view, 2> names_of(Arrangement) {
  return {"towers", "joint"};
}

struct SequencesConfig : PairConfig {
  Arrangement pairs = Arrangement::towers;
};
template <class V>
void fields(V& v, SequencesConfig& c) {
  fields(v, static_cast<ClassifierConfig&>(c));
  v("pairs", c.pairs,
    "each sequence of a pair through the same encoder, or both as one sequence with a separator");
  v("features", c.features,
    "what the head sees of two towers u and v, joined: [u, v], u v, u - v, |u - v|");
}

// UserError when the encoder cannot be built, or does not give one row a sample.
void check_sequences(const SequencesConfig& config, const Node& tree);

// The splits with their pairs joined where they are read as one.
Splits arranged(const Splits& splits, const SequencesConfig& config);

// A model for samples of arranged splits.
class Sequences {
 public:
  Sequences(const Splits& splits, const SequencesConfig& config, int64_t outputs, uint64_t seed);
  std::shared_ptr<Part> model() const;
  Tensor operator()(const Batch& batch, Context& context) const;  // -> [B, outputs]

 private:
  std::shared_ptr<Classifier> classifier_;
  std::shared_ptr<PairClassifier> towers_;  // or this one
};

// A task over the outputs of such a model.
template <class C>
class SequencesTask : public TaskOf<C, Part> {
 public:
  static void check(const C& config, const Node& tree) { check_sequences(config, tree); }
  static Splits arranged(const Splits& splits, const C& config) {
    return longbow::arranged(splits, config);
  }
  Texts texts() const override {
    auto texts = TaskOf<C, Part>::texts();
    texts.pairs = this->has_pairs();
    return texts;
  }

 protected:
  SequencesTask(const Splits& splits, const C& config, int64_t outputs, const TaskOptions& options)
      : TaskOf<C, Part>(splits, config, options),
        sequences_(this->splits_, this->config_, outputs, options.seed) {
    this->model_ = sequences_.model();
  }
  Sequences sequences_;
};

}  // namespace longbow
