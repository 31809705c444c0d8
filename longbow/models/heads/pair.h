#pragma once
#include "longbow/models/heads/classifier.h"

namespace longbow {

// What the head sees of the pooled sequences u and v.
enum class Feature { concat, product, difference, distance };
constexpr std::array<std::string_view, 4> names_of(Feature) {
  return {"concat", "product", "difference", "distance"};
}
// [u, v], u v, u - v, |u - v|, one after another.
Tensor pair_features(const Tensor& u, const Tensor& v, const std::vector<Feature>& features);

// One encoder and one pooler for both sequences, and one head for the pair.
struct PairConfig : ClassifierConfig {
  std::vector<Feature> features = {Feature::concat, Feature::product, Feature::difference};
};

struct PaddedTokens {
  Tensor tokens, lengths;  // [B, N] int64, [B] int64
};

// Two sequences through one encoder, without seeing each other, and a head over what was pooled of
// both: -> [B, classes].
class PairClassifier : public ClassifierBase {
 public:
  PairClassifier(const PairConfig& config, int64_t vocabulary, int64_t classes, uint64_t seed);
  // Sets the mask of the context: one row for every sequence, the first ones before the second.
  Tensor operator()(const PaddedTokens& first, const PaddedTokens& second, Context& context);

 private:
  std::vector<Feature> features_;
};

}  // namespace longbow
