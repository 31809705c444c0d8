#pragma once
// A data set, a classifier, cross-entropy and accuracy: one class per sequence, or one per marked
// token.
#include "longbow/data/batch.h"
#include "longbow/data/source.h"
#include "longbow/models/classifier.h"

namespace longbow {

// What the loss is a mean over: all targets alike, or samples, each of them a mean over its own
// targets.
enum class Normalise { targets, samples };
constexpr std::array<std::string_view, 2> names_of(Normalise) {
  return {"targets", "samples"};
}

// Sums over the targets (or samples) of a batch, on the device; nothing here waits for it.
struct Scores {
  Tensor loss, correct, count;  // scalars
};

class Classification {
 public:
  // Fills in what the data decides: the longest length, padded to a multiple of `bucket`, and the
  // pooling.
  Classification(const DataConfig& data, ClassifierConfig model, int64_t bucket, uint64_t seed,
                 at::Device device);
  Scores run(const Batch& batch, const Random& random, Normalise normalise = Normalise::targets);
  int64_t parameter_count() const;

  const Splits& splits() const { return splits_; }
  Classifier& model() { return *model_; }
  const ClassifierConfig& model_config() const { return config_; }

 private:
  Splits splits_;
  ClassifierConfig config_;
  at::Device device_;
  std::shared_ptr<Classifier> model_;
};

// What can be had without a model: rows that every score should be read against.
struct Baseline {
  std::string name, meaning;
  double accuracy = 0;
};
// The most frequent class of the training split; for ListOps also the most frequent one given the
// root operator.
std::vector<Baseline> baselines(const DataConfig& config, const Splits& splits);

}  // namespace longbow
